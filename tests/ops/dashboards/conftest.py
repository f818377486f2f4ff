"""One Prometheus with a busy history, and the page that draws, for all tests that need them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from grafana.render.draw import bundle, install
from tests.ops.dashboards.busy_day import HOURS, busy_day
from tests.ops.dashboards.history import History, remembering
from tests.support.prometheus import Prometheus

END = 1_780_272_000.0
"""When the history ends: midnight of some day, at the end of a block."""


def busy_histories() -> dict[str, History]:
    """Two servers, of which one has too little memory in the end."""
    begin = END - HOURS * 3600
    return {
        "mac-1:8080": busy_day(begin, seed=1),
        "mac-2:8080": busy_day(begin, seed=2, talks_a_minute=0.03),
    }


@pytest.fixture(scope="session")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus that has watched both."""
    with remembering(tmp_path_factory.mktemp("busy"), busy_histories()) as server:
        yield server


@pytest.fixture(scope="session")
def drawing_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the page, its packages installed."""
    folder = tmp_path_factory.mktemp("page")
    install()
    bundle(folder)
    return folder
