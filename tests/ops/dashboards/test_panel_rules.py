"""What every panel and every dashboard of ours keeps to."""

import re
from itertools import combinations
from typing import Any

import promql_parser as promql
import pytest
from grafana_foundation_sdk.models import units

from app.telemetry.catalogue import CATALOGUE
from app.telemetry.series import Kind
from tests.ops.dashboards.asking import NAMES, dashboard, expressions, filled, panels

PANELS = [
    pytest.param(panel, id=f"{name}-{panel['id']}") for name in NAMES for panel in panels(dashboard(name))
]
COUNTERS = {series.name for series in CATALOGUE if series.kind is Kind.COUNTER}
WRAPPED = {"rate", "increase", "changes"}


def selectors(query: str) -> list[tuple[promql.VectorSelector, str]]:
    """Each selector of a query, and the function over time that it stands in."""
    found: list[tuple[promql.VectorSelector, str]] = []

    def walk(node: Any, function: str) -> None:
        match node:
            case promql.VectorSelector():
                found.append((node, function))
            case promql.MatrixSelector():
                walk(node.vector_selector, function)
            case promql.Call():
                for argument in node.args:
                    walk(
                        argument, node.func.name if isinstance(argument, promql.MatrixSelector) else function
                    )
            case promql.AggregateExpr() | promql.ParenExpr() | promql.UnaryExpr() | promql.SubqueryExpr():
                walk(node.expr, function)
            case promql.BinaryExpr():
                walk(node.lhs, function)
                walk(node.rhs, function)

    walk(promql.parse(query), "")
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_dashboard_has_its_variables(name: str):
    """A reader chooses data source, job and instance; new ones turn up as the time shown changes."""
    board = dashboard(name)
    variables = {variable["name"]: variable for variable in board["templating"]["list"]}

    assert board["uid"] == f"samovar-{name}"
    assert board["editable"] is False
    assert variables["datasource"]["query"] == "prometheus"
    assert variables["traces"]["query"] == "tempo"
    for label in ("job", "instance"):
        chosen = variables[label]
        assert chosen["multi"] is True
        assert chosen["includeAll"] is True
        assert chosen["allValue"] == ".+"
        assert chosen["refresh"] == 2
        assert chosen["datasource"]["uid"] == "${datasource}"


@pytest.mark.parametrize("panel", PANELS)
def test_a_panel_says_what_it_shows_and_what_to_do(panel: dict[str, Any]):
    """Title, description, what to do, data source, unit, and a word for when there is no data."""
    defaults = panel["fieldConfig"]["defaults"]

    assert panel["title"]
    assert re.fullmatch(r"[A-Z`][^\n]+[.]\n\n\*\*What to do:\*\* [^\n]+[.]", panel["description"])
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert all(target["datasource"] == panel["datasource"] for target in panel["targets"])
    assert panel["targets"]
    assert defaults["unit"] in {getattr(units, each) for each in dir(units) if each[0].isupper()}
    assert defaults["noValue"]


@pytest.mark.parametrize("panel", PANELS)
def test_a_panel_with_a_limit_says_what_is_wrong_above_it(panel: dict[str, Any]):
    """Green is only where there is also red or yellow; without a limit a value is neither good nor bad."""
    colors = [step["color"] for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"]]

    assert colors in (["text"], ["blue"], ["green", "red"], ["green", "yellow"], ["red", "green"])


@pytest.mark.parametrize("name", NAMES)
def test_every_query_asks_for_the_chosen_servers_alone(name: str):
    """Each selector, the annotations' too, carries job and instance."""
    for place, query in expressions(dashboard(name)):
        for selector, _ in selectors(filled(query)):
            matched = {matcher.name: matcher.op for matcher in selector.matchers.matchers}
            assert matched.get("job") == matched.get("instance") == promql.MatchOp.Re, (place, query)


@pytest.mark.parametrize("panel", PANELS)
def test_a_counter_is_never_shown_as_it_stands(panel: dict[str, Any]):
    """A counter's height says how long the process runs; only the ledger, which subtracts them, uses it."""
    for target in panel["targets"]:
        for selector, function in selectors(filled(target["expr"])):
            name = selector.name or ""
            if name in COUNTERS or name.endswith(("_bucket", "_sum", "_count")):
                assert function in WRAPPED or panel["title"] == "Ledger", name


@pytest.mark.parametrize("panel", PANELS)
def test_a_rate_is_over_the_interval_that_grafana_computes(panel: dict[str, Any]):
    """Or the zoom decides whether anything is seen; a rise over a fixed window says how long that is."""
    for target in panel["targets"]:
        windows = dict(re.findall(r"(rate|increase|changes)\(\w+\{[^}]*\}\[([^\]]+)\]", target["expr"]))
        assert windows.get("rate", "$__rate_interval") == "$__rate_interval"
        for window in set(windows.values()) - {"$__rate_interval", "$__range"}:
            number, unit = re.fullmatch(r"(\d+)([mh])", window).groups()  # type: ignore[union-attr]
            words = {"m": "minutes", "h": "hours"}[unit]
            said = panel["description"] + target["legendFormat"]
            assert f"{number} {words}" in said or (window == "1h" and "an hour" in said), window


@pytest.mark.parametrize("name", NAMES)
def test_panels_have_numbers_of_their_own_and_do_not_overlap(name: str):
    """Each panel can be linked to, and is seen whole."""
    board = dashboard(name)
    places = [panel["gridPos"] for panel in board["panels"]]

    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    assert len({panel["title"] for panel in board["panels"]}) == len(board["panels"])
    for one, other in combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or below, (one, other)
