"""The dashboards, one a module, and the files they become."""

from collections.abc import Sequence

from grafana.source.alerts import ALERTS
from grafana.source.dashboards.cache_sizing import CACHE_SIZING
from grafana.source.dashboards.internals import INTERNALS
from grafana.source.dashboards.overview import OVERVIEW
from grafana.source.frame import Board
from grafana.source.panels import Link

FOLDER = "grafana/dashboards"

BOARDS: tuple[Board, ...] = (OVERVIEW, CACHE_SIZING, INTERNALS)


def files() -> dict[str, str]:
    """Path in the repository → text."""
    return {f"{FOLDER}/{board.uid.removeprefix('samovar-')}.json": board.json(runbooks) for board in BOARDS}


def runbooks(uid: str, title: str) -> Sequence[Link]:
    """Links to the runbooks of the alerts that point to this panel of this dashboard."""
    return [
        Link(f"Runbook of {alert.name}", f"${{runbooks}}/{alert.runbook}.md#{alert.name.lower()}")
        for alert in ALERTS
        if (alert.panel.dashboard, alert.panel.title) == (uid, title)
    ]
