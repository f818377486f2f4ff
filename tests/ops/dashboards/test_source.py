"""The committed dashboards are what their source makes, and Grafana's SDK reads them as it wrote them."""

import json
import re

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from grafana.source import thresholds
from grafana.source.alerts import ALERTS
from grafana.source.dashboards import BOARDS, files
from grafana.source.frame import Board, Row
from grafana.source.thresholds import Threshold
from tests.ops.dashboards.asking import FOLDER, NAMES, ROOT, dashboard, panels


def test_the_committed_files_are_what_the_source_makes():
    """Who changes a dashboard changes its source."""
    assert {path: (ROOT / path).read_text() for path in files()} == files()
    assert {path.stem for path in FOLDER.glob("*.json")} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_sdk_reads_what_it_wrote(name: str):
    """Nothing of a dashboard is lost or added by reading it into Grafana's model and writing it again."""
    written = json.dumps(Dashboard.from_json(dashboard(name)), cls=JSONEncoder)

    assert json.loads(written) == dashboard(name)


def test_every_limit_is_in_the_table_of_thresholds():
    """A panel turns red where an alert would: no panel has a limit of its own."""
    table = [value for value in vars(thresholds).values() if isinstance(value, Threshold)]
    limits = [
        limit.threshold for board in BOARDS for row in board.rows for p in row.panels for limit in p.limits
    ]

    assert limits
    assert all(any(limit is known for known in table) for limit in limits)


def test_every_alert_points_to_a_panel_that_points_back_to_its_runbook():
    """From an alert to its panel, and from there to what to do, each is one click."""
    for alert in ALERTS:
        board = dashboard(alert.panel.dashboard.removeprefix("samovar-"))
        (panel,) = [panel for panel in panels(board) if panel["title"] == alert.panel.title]
        (url,) = [link["url"] for link in panel["links"] if link["title"] == f"Runbook of {alert.name}"]
        page, heading = re.fullmatch(r"\$\{runbooks\}/([a-z-]+\.md)#(\w+)", url).groups()  # type: ignore[union-attr]
        headings = re.findall(r"^#+ (\S+)$", (ROOT / "docs" / "runbooks" / page).read_text(), re.MULTILINE)
        assert heading in {each.lower() for each in headings}, url


def test_two_panels_with_one_number_are_refused():
    """Links name a panel by its number, so it is given once."""
    (panel, *_) = BOARDS[0].rows[0].panels
    twice = Board("u", "t", "d", [Row("", [panel] * 8)])

    with pytest.raises(ValueError, match="numbers of its panels have to differ"):
        twice.built(lambda _uid, _title: ())


def test_a_line_that_leaves_a_hole_is_refused():
    """The grid is filled, so that no panel stands where nobody looks for it."""
    short = Board("u", "t", "d", [Row("Short", list(BOARDS[0].rows[0].panels[:3]))])

    with pytest.raises(ValueError, match=r"u, 'Short': its last line is 9 wide instead of 24"):
        short.built(lambda _uid, _title: ())
