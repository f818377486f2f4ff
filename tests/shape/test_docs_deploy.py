"""The pages on deployment speak of commands, settings, files and series that exist."""

import re
import shlex
from itertools import takewhile
from pathlib import Path

import pytest
import yaml

from app.cli import _parser
from app.settings.keys import all_keys, sections
from app.telemetry.catalogue import CATALOGUE

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted((DOCS / "deploy").glob("*.md"))
LAUNCHD, SYSTEMD = DOCS / "deploy" / "launchd.md", DOCS / "deploy" / "systemd.md"
CHART_VALUES = DOCS.parent / "charts" / "samovar" / "values.yaml"
SHELL = {"|", "<", ">", ">>", "2>"}
"""What ends a command's words."""


def commands(text):
    """Every samovar command of a page, as its words; what stands before it on the line is a shell's."""
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    for line in [*lines, *re.findall(r"`(samovar [^`]+)`", text)]:
        words = list(takewhile(lambda word: word not in SHELL, shlex.split(line)))
        if words[:1] == ["helm"]:
            # Its releases have the name, too.
            continue
        for number, word in enumerate(words[:-1], 1):
            # Accounts and folders have the name too; a verb follows the command alone.
            is_group = words[number - 2 : number - 1] == ["-g"]
            if word.rpartition("/")[2] == "samovar" and words[number][0].isalpha() and not is_group:
                yield words[number:]


def values_of_the_chart(values, prefix=""):
    """Every key of the chart's values, dotted: some have the names of settings' sections."""
    for key, value in values.items():
        yield f"{prefix}{key}"
        if isinstance(value, dict):
            yield from values_of_the_chart(value, f"{prefix}{key}.")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_is_taken_by_the_real_parser(page):
    """A page that shows a command that is none would be found here."""
    shown = list(commands(page.read_text()))

    assert len(shown) >= 2
    for words in shown:
        assert callable(_parser().parse_args(words).run), words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_name_exists(page):
    """Settings and series are the program's, and links lead to files of the repository and parts of pages."""
    text = page.read_text()
    known = "|".join(section.name for section in sections() if section.name)
    chart = set(values_of_the_chart(yaml.safe_load(CHART_VALUES.read_text())))
    others = chart if page.stem == "kubernetes" else set()

    assert (
        set(re.findall(rf"`((?:{known})\.[a-z_]+)[`\s]", text)) <= {key.dotted for key in all_keys()} | others
    )
    assert set(re.findall(r"SAMOVAR_\w+__\w+", text)) <= {key.environment for key in all_keys()}
    assert set(re.findall(r"`(samovar_[a-z_]+)`", text)) <= {series.name for series in CATALOGUE}
    for target in re.findall(r"\]\(([^)#]*)(?:#[^)]*)?\)", text):
        assert not target or (page.parent / target).exists(), target


def test_the_part_on_crash_loops_is_where_others_point():
    """docs/metrics.md, docs/http.md and the page on systemd link to it."""
    assert "\n## A crash loop\n" in LAUNCHD.read_text()
    for page in (DOCS / "metrics.md", DOCS / "http.md", SYSTEMD):
        assert "launchd.md#a-crash-loop" in page.read_text()
