"""Dashboards can be drawn, with Grafana's own components, and every panel shows something."""

from pathlib import Path

import pytest

from tests.ops.dashboards.asking import NAMES, dashboard, panels
from tests.ops.dashboards.pictures import PICTURES, picture
from tests.support.prometheus import Prometheus

PNG = b"\x89PNG\r\n\x1a\n"
PLOTTED = {"timeseries", "trend", "heatmap", "table"}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_panel_draws_its_data(name: str, busy: Prometheus, drawing_page: Path):
    """The page complains of nothing; each panel has its title and its plot or number."""
    drawn = picture(name, busy, drawing_page)

    assert not drawn.complaints
    assert drawn.png.startswith(PNG)
    wanted = list(panels(dashboard(name)))
    assert set(drawn.panels) == {panel["id"] for panel in wanted}
    for panel in wanted:
        shown = drawn.panels[panel["id"]]
        assert shown.text.startswith(panel["title"])
        assert shown.text != panel["title"], panel["title"]
        assert panel["fieldConfig"]["defaults"]["noValue"] not in shown.text, panel["title"]
        assert shown.marks or panel["type"] not in PLOTTED, panel["title"]


def test_the_committed_pictures_are_there_and_in_the_page_about_dashboards():
    """What docs/dashboards.md shows exists."""
    text = (PICTURES.parent / "dashboards.md").read_text()

    for name in NAMES:
        assert f"](pictures/{name}.png)" in text
        assert (PICTURES / f"{name}.png").read_bytes().startswith(PNG)
