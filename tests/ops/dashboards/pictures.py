"""Draws the dashboards of a busy server: `python -m tests.ops.dashboards.pictures` writes docs/pictures."""

import tempfile
from dataclasses import asdict
from pathlib import Path

from grafana.render.draw import Picture, bundle, draw, install
from tests.ops.dashboards.asking import NAMES, ROOT, SHOWN_SECONDS, answers, dashboard, panels
from tests.ops.dashboards.conftest import END, busy_histories
from tests.ops.dashboards.history import remembering
from tests.support.prometheus import Prometheus

PICTURES = ROOT / "docs" / "pictures"


def picture(name: str, prometheus: Prometheus, page: Path) -> Picture:
    """A dashboard, drawn with what Prometheus answers to its queries."""
    board, end = dashboard(name), END - 60
    found = {
        panel["id"]: [asdict(each) for each in answers(prometheus, panel, end)] for panel in panels(board)
    }
    return draw(board, found, (end - SHOWN_SECONDS, end), page)


def main() -> None:
    """Write every picture."""
    install()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bundle(folder)
        with remembering(folder, busy_histories()) as prometheus:
            for each in NAMES:
                (PICTURES / f"{each}.png").write_bytes(picture(each, prometheus, folder).png)


if __name__ == "__main__":
    main()
