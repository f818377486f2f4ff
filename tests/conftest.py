"""How hard Hypothesis looks, and which tests stay together when several processes run them.

`HYPOTHESIS_PROFILE=ci` looks ten times as hard as the default, at the same examples each time: what lands is
decided by the change alone. The default tries new ones on every run, and finds what nobody thought of.
"""

import os
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("dev", max_examples=50, deadline=None)
settings.register_profile("ci", max_examples=500, deadline=None, derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))

ROOT = Path(__file__).parent
SHARED = {"image": "image", "busy": "dashboards", "drawing_page": "dashboards"}
"""A fixture of the session that takes long → the group of tests, of several files, that use it."""
SECONDS = {"image": 150.0, "dashboards": 50.0}
"""What a group's fixtures take beside its tests."""


def group_of(item: pytest.Item) -> str:
    """Tests of one group run in one process: a file's, which share its fixtures, unless they are `apart`."""
    for fixture, group in SHARED.items():
        if fixture in getattr(item, "fixturenames", ()):
            return group
    return item.nodeid if item.get_closest_marker("apart") else str(item.path.relative_to(ROOT))


# Before xdist reads the marks.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group the tests, the longest groups first: what is begun last ends last, and should be short."""
    groups = {item: group_of(item) for item in items}
    seconds = defaultdict(float, SECONDS)
    for item, group in groups.items():
        seconds[group] += 20.0 if item.get_closest_marker("slow") else 0.3
        if group != item.nodeid:
            item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: (-seconds[groups[item]], groups[item]))
