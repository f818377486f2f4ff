"""How hard Hypothesis looks, and which tests stay together when several processes run them.

`HYPOTHESIS_PROFILE=ci` looks ten times as hard as the default, at the same examples each time: what lands is
decided by the change alone. The default tries new ones on every run, and finds what nobody thought of.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("dev", max_examples=50, deadline=None)
settings.register_profile("ci", max_examples=500, deadline=None, derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))

ROOT = Path(__file__).parent
IMAGE = "image"
"""A fixture that takes minutes, for tests of several folders."""


# Before xdist reads the marks.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """A file's tests share its servers, and those in a folder of `ops` its Prometheus, chart or image."""
    for item in items:
        place = item.path.relative_to(ROOT)
        if IMAGE in getattr(item, "fixturenames", ()):
            group = IMAGE
        elif place.parts[0] == "ops":
            group = "/".join(place.parts[:2])
        elif place.name == "test_mutants.py":
            continue  # each takes long, and none shares anything
        else:
            group = str(place)
        item.add_marker(pytest.mark.xdist_group(group))
