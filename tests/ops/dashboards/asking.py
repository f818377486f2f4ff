"""Asks what a panel asks, as Grafana would: variables put in, over the time shown or at its end."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.support.prometheus import Prometheus

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "grafana" / "dashboards"
NAMES = ("overview", "cache-sizing", "internals")

STEP_SECONDS = 60
SHOWN_SECONDS = 6 * 3600
VARIABLES = {
    "$__rate_interval": "4m",
    "$__range": f"{SHOWN_SECONDS}s",
    "$job": "samovar",
    "$instance": ".+",
}
"""Four scrapes of a minute, as Grafana computes it; and the longest first where one begins as another."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for one target of a panel."""

    ref: str
    legend: str
    form: str
    series: list[dict[str, Any]]


def dashboard(name: str) -> dict[str, Any]:
    """A committed dashboard."""
    content: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return content


def panels(board: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Its panels, rows left out."""
    return (panel for panel in board["panels"] if panel["type"] != "row")


def expressions(board: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(where it stands, the query) of each panel and annotation."""
    for panel in panels(board):
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for annotation in board["annotations"]["list"]:
        yield annotation["name"], annotation["expr"]


def filled(expression: str) -> str:
    """The query with the variables put in."""
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    assert "$" not in expression, f"an unknown variable in {expression}"
    return expression


def answers(prometheus: Prometheus, panel: dict[str, Any], end: float) -> list[Answer]:
    """What each target of a panel gets."""
    found = []
    for target in panel["targets"]:
        query = filled(target["expr"])
        series = (
            moment(prometheus, query, end)
            if target["instant"]
            else course(prometheus, query, end - SHOWN_SECONDS, end)
        )
        found.append(Answer(target["refId"], target["legendFormat"], target["format"], series))
    return found


def course(prometheus: Prometheus, query: str, begin: float, end: float) -> list[dict[str, Any]]:
    """The series of a query over time: `metric` and `values`."""
    found: list[dict[str, Any]] = _ask(
        prometheus, "query_range", query=query, start=begin, end=end, step=STEP_SECONDS
    )
    return found


def moment(prometheus: Prometheus, query: str, at: float) -> list[dict[str, Any]]:
    """The series of a query at a moment, in the same form."""
    found = _ask(prometheus, "query", query=query, time=at)
    return [{"metric": each["metric"], "values": [each["value"]]} for each in found]


def _ask(prometheus: Prometheus, path: str, **parameters: str | float) -> Any:
    answer = httpx.post(f"{prometheus.url}/api/v1/{path}", data=parameters, timeout=60).json()
    assert answer["status"] == "success", f"{answer.get('error')}\nfor {parameters}"
    return answer["data"]["result"]
