"""docs/settings.md and the code say the same."""

import re
import tomllib
from pathlib import Path

import pytest

from app.settings.document import BEGIN, END, main, with_tables
from app.settings.keys import all_keys
from app.settings.layers import load, system_file

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_the_tables_are_what_the_code_says():
    """The page's tables are exactly what `python -m app.settings.document` makes of the schema."""
    assert with_tables(TEXT) == TEXT


def test_every_setting_has_one_row():
    """Each key is documented once, with its flag and its variable, and no row is about anything else."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in TEXT.splitlines()
        if (
            line.startswith("| `") and "`SAMOVAR_" in line and "." in line.partition("|")[2].partition("|")[0]
        )
        or line.startswith("| `strict`")
    ]

    documented = {row[0].strip("`"): row for row in rows}
    assert len(documented) == len(rows)
    assert documented.keys() == {key.dotted for key in all_keys()}
    for key in all_keys():
        assert ("none" if key.secret else f"`{key.flag}`") in documented[key.dotted][1]
        assert documented[key.dotted][2] == f"`{key.environment}`"


def test_the_example_is_a_file_that_loads(tmp_path):
    """The samovar.toml of the page can be used as it stands, and says only what differs from the defaults."""
    [example] = re.findall(r"```toml\n(.*?)```", TEXT, flags=re.DOTALL)
    (tmp_path / "samovar.toml").write_text(example)

    loaded = load({}, config=None, environ={}, folder=tmp_path, system_file=tmp_path / "none.toml")

    said = {f"{section}.{key}" for section, keys in tomllib.loads(example).items() for key in keys}
    assert said == {key for key, layer in loaded.provenance.items() if layer != "default"}
    assert loaded.settings.snapshots.capacity_bytes == 8 * 2**30


def test_every_name_in_the_prose_exists():
    """Flags, variables and places the text speaks of are the code's own."""
    prose = TEXT.partition(BEGIN)[0]
    flags = {flag for key in all_keys() for flag in (key.flag, key.off_flag)} | {"--config", "--json"}
    variables = {key.environment for key in all_keys()}

    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", prose)) <= flags
    assert set(re.findall(r"SAMOVAR_\w+__\w+", prose)) <= variables
    for platform in ("linux", "darwin"):
        assert f"`{system_file(platform)}`" in prose


@pytest.mark.parametrize(
    "page", ["", BEGIN, END, f"{END}{BEGIN}", f"{BEGIN}{END}", f"{BEGIN}\n{BEGIN}\n{END}"]
)
def test_a_page_without_its_marks_is_refused(page):
    """Rewriting never guesses where the tables go."""
    with pytest.raises(ValueError, match="the page needs one"):
        with_tables(page)


def test_the_command_rewrites_the_page(tmp_path):
    """`python -m app.settings.document PAGE` restores tables and leaves the prose alone."""
    page = tmp_path / "settings.md"
    page.write_text(TEXT.partition(BEGIN)[0] + BEGIN + "\nstale\n" + END + TEXT.partition(END)[2])

    main([str(page)])

    assert page.read_text() == TEXT
