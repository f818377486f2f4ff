"""How hard Hypothesis looks, and which tests stay together when several processes run them.

`HYPOTHESIS_PROFILE=ci` looks ten times as hard as the default, at the same examples each time: what lands is
decided by the change alone. The default tries new ones on every run, and finds what nobody thought of.
"""

import os
from collections import defaultdict

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

settings.register_profile("dev", max_examples=50, deadline=None)
settings.register_profile("ci", max_examples=500, deadline=None, derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))

SHARED = {"image": "image", "busy": "dashboards", "drawing_page": "dashboards"}
"""A fixture of the session that takes long → the group of tests that use it."""
FILES = {
    "tests/ops/compose/test_compose.py": "image",
    "tests/ops/container/test_image.py": "image",
    "tests/ops/container/test_play_kube.py": "image",
    "tests/ops/dashboards/test_data.py": "dashboards",
    "tests/ops/dashboards/test_drawing.py": "dashboards",
    "tests/ops/dashboards/test_types.py": "dashboards",
}
"""The files of those groups. Every other file is a group of its own."""
APART = frozenset({"tests/property/test_mutants.py"})
"""Files whose tests share nothing, and run wherever there is room."""
SECONDS = {"image": 150.0, "dashboards": 50.0}
"""What a group's fixtures take beside its tests."""


def group_of(nodeid: str) -> str:
    """Tests of one group run in one process, for they share what takes long to make."""
    file = nodeid.partition("::")[0]
    return nodeid if file in APART else FILES.get(file, file)


class ByGroup(LoadScopeScheduling):  # type: ignore[misc]  # xdist brings no types
    """Gives groups to processes, in the order of collection."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByGroup:
    """Our own, for `--dist loadgroup` of xdist 3.8 makes no groups under pytest 9.2."""
    config.option.loadscopereorder = False
    return ByGroup(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest groups first: what is begun last ends last, and should be short.

    Raises:
        pytest.UsageError: a test of another group would make what one group has.
    """
    seconds = defaultdict(float, SECONDS)
    for item in items:
        group = group_of(item.nodeid)
        seconds[group] += 20.0 if item.get_closest_marker("slow") else 0.3
        for fixture in SHARED.keys() & set(getattr(item, "fixturenames", ())):
            if group != SHARED[fixture]:
                raise pytest.UsageError(f"{item.nodeid} uses {fixture}, and its file is not in FILES")
    items.sort(key=lambda item: (-seconds[group_of(item.nodeid)], group_of(item.nodeid)))
