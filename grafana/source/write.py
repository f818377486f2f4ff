"""Writes every generated file of dashboards, rules and alerts: `python -m grafana.source.write [--check]`.

With `--check` nothing is written; the files that differ are named, and the exit code is 1 if there is one.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from charts.source.copies import copies
from grafana.source import alerting, alerts_page, dashboards, rules

ROOT = Path(__file__).parents[2]

SOURCES: tuple[Callable[[], dict[str, str]], ...] = (
    rules.files,
    alerting.files,
    alerts_page.files,
    dashboards.files,
)
"""What makes files: each returns path in the repository → text."""


def generated() -> dict[str, str]:
    """Every generated file, the chart's copies included: path in the repository → text."""
    texts = {path: text for files in SOURCES for path, text in files().items()}
    return texts | copies(texts)


def outdated(root: Path) -> list[str]:
    """The paths whose file below `root` is not what its source makes of it, or is not there."""
    return [
        path
        for path, text in generated().items()
        if not (root / path).is_file() or (root / path).read_text(encoding="utf-8") != text
    ]


def write(root: Path) -> list[str]:
    """Write what is outdated; the paths that were written."""
    changed = outdated(root)
    texts = generated()
    for path in changed:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(texts[path], encoding="utf-8")
    return changed


def main() -> int:
    """Write, or with `--check` compare; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say whether every file is up to date")
    if not parser.parse_args().check:
        for path in write(ROOT):
            print("wrote", path)
        return 0
    differing = outdated(ROOT)
    for path in differing:
        print(f"{path} is not what grafana/source makes; run `python -m grafana.source.write`")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
