"""docs/sizing.md and the code say the same."""

import re
from pathlib import Path

from app.cli import main
from app.snapshots.sizing import HEADROOM, LEAST_ENTRIES, START_SESSIONS, START_TOKENS

PAGE = (Path(__file__).parents[2] / "docs" / "sizing.md").read_text(encoding="utf-8")
EXAMPLE = re.search(r"    \$ samovar (cache size --conversations .*)\n((?:    .*\n)+)", PAGE)


def test_the_numbers_of_the_method_are_those_of_the_code():
    """What is assumed at the start, the headroom and the least."""
    words = {8: "eight", 2: "two"}
    assert f"{words[START_SESSIONS]} conversations of {START_TOKENS:,} tokens" in PAGE
    assert f"at least {words[LEAST_ENTRIES]} snapshots" in PAGE
    assert (HEADROOM.numerator, HEADROOM.denominator) == (1, 4)
    assert "needed + a quarter of it, or one snapshot if that is more" in PAGE


def test_the_example_prints_what_the_page_shows(capsys, monkeypatch, tmp_path):
    """All of it but what depends on the machine: its memory, and how many snapshots fit into that."""
    assert EXAMPLE is not None
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    assert main(EXAMPLE[1].split()) == 0
    machine = re.compile(r"weights \S+ \S+;|It fits: .*| +\d+$", re.MULTILINE)
    said, shown = (
        [machine.sub("", line.strip()) for line in text.splitlines()]
        for text in (capsys.readouterr().out, EXAMPLE[2])
    )
    assert said == shown
