"""Draws a dashboard with the answers to its queries to a PNG. It knows no query and asks nobody.

It takes `npm ci` in this folder once (`install`), and Chromium. Annotations are not drawn.
"""

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
WIDTH_PIXELS = 1400
# As in src/page.jsx: the height of the grid's unit, and of the title.
UNIT_PIXELS, HEAD_PIXELS = 38, 48
VIRTUAL_SECONDS = 20
LIMIT_SECONDS = 120

_REPORT = re.compile(r'CONSOLE[^"]*"PANEL (\{.*\})", source')
_COMPLAINT = re.compile(r'(?:ERROR|WARNING):CONSOLE[^"]*"(.*)", source|CONSOLE[^"]*"(Uncaught .*)", source')


@dataclass(frozen=True, slots=True)
class Drawn:
    """What one panel shows: its words, and how many plots, marks and lines of a table it has."""

    marks: int
    text: str


@dataclass(frozen=True, slots=True)
class Picture:
    """A PNG; what its panels show, by id; and what the page complained of."""

    png: bytes
    panels: Mapping[int, Drawn]
    complaints: Sequence[str]


def install() -> None:
    """Install what the page is made of, as locked, unless it is there already."""
    lock, there = HERE / "package-lock.json", HERE / "node_modules" / ".package-lock.json"
    if there.is_file() and there.stat().st_mtime >= lock.stat().st_mtime:
        return
    subprocess.run(["npm", "ci", "--no-progress"], cwd=HERE, check=True)


def bundle(folder: Path) -> None:
    """Bundle the page into a folder."""
    subprocess.run([HERE / "build.sh", folder], check=True)


def draw(
    dashboard: Mapping[str, Any],
    answers: Mapping[int, Sequence[Mapping[str, Any]]],
    shown: tuple[float, float],
    bundled: Path,
) -> Picture:
    """Draw a dashboard.

    Args:
        dashboard: as in its file.
        answers: by panel id: for each target its `ref`, `legend`, `form` (Grafana's `format`) and `series`:
            Prometheus' own with `metric` and `values`.
        shown: the time shown, in Unix seconds.
        bundled: where `bundle` put the page.

    Raises:
        CalledProcessError: the browser failed.
    """
    height = HEAD_PIXELS + UNIT_PIXELS * max(
        panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in dashboard["panels"]
    )
    facts = {
        "DASHBOARD": dashboard,
        "ANSWERS": answers,
        "RANGE": shown,
        "WIDTH": WIDTH_PIXELS,
        "HEIGHT": height,
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        page, png = folder / "page.html", folder / "page.png"
        page.write_text(
            "<!doctype html><meta charset=utf-8>"
            f"<link rel=stylesheet href={bundled.as_uri()}/page.css>"
            "<body style='margin:0'><div id=root></div>"
            f"<script>{''.join(f'window.{key} = {_inline(value)};' for key, value in facts.items())}</script>"
            f"<script src={bundled.as_uri()}/page.js></script>"
        )
        browser = subprocess.run(
            [
                "chromium",
                *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"),
                *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
                "--allow-file-access-from-files",
                f"--user-data-dir={folder / 'browser'}",
                f"--window-size={WIDTH_PIXELS},{height}",
                f"--virtual-time-budget={VIRTUAL_SECONDS * 1000}",
                *("--enable-logging=stderr", "--v=0"),
                f"--screenshot={png}",
                page.as_uri(),
            ],
            capture_output=True,
            text=True,
            check=True,
            timeout=LIMIT_SECONDS,
            # What a model's server has preloaded for speed is not for a browser.
            env={name: value for name, value in os.environ.items() if name != "LD_PRELOAD"},
        )
        reports = (json.loads(report) for report in _REPORT.findall(browser.stderr))
        return Picture(
            png.read_bytes(),
            {report["id"]: Drawn(report["marks"], report["text"]) for report in reports},
            [error or uncaught for error, uncaught in _COMPLAINT.findall(browser.stderr)],
        )


def _inline(value: object) -> str:
    """JSON that cannot end the script it stands in."""
    return json.dumps(value).replace("</", "<\\/")
