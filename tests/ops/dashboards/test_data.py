"""What panels get from a real Prometheus: numbers of a busy server, and silence of a fresh one."""

from collections.abc import Iterator
from math import isfinite
from typing import Any

import pytest

from tests.ops.dashboards.asking import NAMES, answers, course, dashboard, filled, panels
from tests.ops.dashboards.busy_day import just_started
from tests.ops.dashboards.conftest import END
from tests.ops.dashboards.history import remembering
from tests.support.prometheus import Prometheus

SILENT_AT_FIRST = {
    "overview": {
        "Failed requests",
        "Turned away",
        "Prompt tokens reused",
        "Time to first token",
        "Time between tokens",
    },
    "cache-sizing": {
        "Token hit ratio",
        "Waiting time saved",
        "Hit ratio with more memory",
        "Ghost hits",
        "Never used before it left",
        "Uses of an entry",
        "Divergence",
        "What a hit costs",
    },
    "internals": {
        "Stages of a request",
        "Calls into the store",
        "Warm-ups by outcome",
        "Time since the last engine step",
    },
}
"""Ratios and quantiles of nothing: no data is the truth, and the panel says so in words."""


def values(series: list[dict[str, Any]]) -> list[float]:
    """All samples."""
    return [float(value) for each in series for _, value in each["values"]]


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A server that was started ten minutes ago, and asked nothing."""
    with remembering(tmp_path_factory.mktemp("fresh"), {"mac-1:8080": just_started(END - 600)}) as server:
        yield server


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_query_finds_numbers_on_a_busy_server(name: str, busy: Prometheus):
    """Each target of each panel has samples, and all of them are finite."""
    for panel in panels(dashboard(name)):
        for answer in answers(busy, panel, END - 60):
            found = values(answer.series)
            assert found, (panel["title"], answer.ref)
            assert all(map(isfinite, found)), (panel["title"], answer.ref)


@pytest.mark.slow
def test_every_annotation_marks_what_happened(busy: Prometheus):
    """The day had starts, a change of settings, loads of the model and an operator who cleared the store."""
    for annotation in dashboard("overview")["annotations"]["list"]:
        marks = course(busy, filled(annotation["expr"]), END - 6 * 3600, END)
        instances = {each["metric"]["instance"] for each in marks}
        assert instances == {"mac-1:8080", "mac-2:8080"}, annotation["name"]
    starts, changed, _, cleared = dashboard("overview")["annotations"]["list"]
    assert len(set(values(course(busy, filled(starts["expr"]), END - 6 * 3600, END)))) == 2
    for once in (changed, cleared):
        marks = course(busy, filled(once["expr"]), END - 6 * 3600, END)
        assert all(len(each["values"]) == 1 for each in marks), once["name"]


@pytest.mark.parametrize("name", NAMES)
def test_a_fresh_server_shows_zeros_or_nothing_and_never_nonsense(name: str, fresh: Prometheus):
    """What cannot be said yet is not said: no NaN, no infinity; and nothing else is silent."""
    silent = set()
    for panel in panels(dashboard(name)):
        found = [value for answer in answers(fresh, panel, END - 60) for value in values(answer.series)]
        assert all(map(isfinite, found)), panel["title"]
        if not found:
            silent.add(panel["title"])

    assert silent == SILENT_AT_FIRST[name]
