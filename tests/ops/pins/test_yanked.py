"""No release that is pinned was taken back by who made it: the package index says so, and uv asks it.

The index these tests can reach says nothing of vulnerabilities; `make audit` asks those that do.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PINS = sorted((ROOT / "constraints").glob("*.txt"))
YANKED = re.compile(r"`(\S+)` is yanked")
TAKEN_BACK = "attrs==21.1.0"
"""A release that was, in 2021, and will be for ever."""


def yanked(pins: Path, folder: Path, *flags: str) -> list[str]:
    """The releases in a file of pins that were taken back; fails where the index does not know one."""
    uv = Path(sys.executable).with_name("uv")
    # Into an empty folder, or what is installed would not be looked up.
    into = ("--python", sys.executable, "--target", str(folder))
    ended = subprocess.run(
        [uv, "pip", "install", "--dry-run", "--no-deps", *flags, *into, "-r", pins],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "Would install" in ended.stderr
    return YANKED.findall(ended.stderr)


@pytest.mark.parametrize("pins", PINS, ids=[file.stem for file in PINS])
def test_no_pinned_release_was_taken_back(pins, tmp_path):
    """Of the product on every backend, of its image, and of all tools."""
    assert yanked(pins, tmp_path, "--require-hashes") == []


def test_a_release_that_was_taken_back_would_be_seen(tmp_path):
    """One that was is found, so that silence means something."""
    pins = tmp_path / "pins.txt"
    pins.write_text(f"{TAKEN_BACK}\n")

    assert yanked(pins, tmp_path) == [TAKEN_BACK]
