"""CONTRIBUTING.md names what is there: targets, programs, folders, files and marks."""

import importlib.util
import re
import tomllib
from pathlib import Path

from tests.shape.documents import DOCS, code, tables_of

ROOT = DOCS.parent
PAGE = ROOT / "CONTRIBUTING.md"
TEXT = PAGE.read_text(encoding="utf-8")
NO_ROOM = {"__pycache__", "support"}
"""Folders of tests without tests."""


def test_every_target_is_one_of_the_makefile() -> None:
    """`make` knows all that it is asked for."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))

    assert set(re.findall(r"\bmake ([a-z-]+)", TEXT)) <= targets


def test_every_program_can_be_run_and_what_it_writes_is_there() -> None:
    """Modules with a main part; the paths that they write exist."""
    rows = tables_of("../CONTRIBUTING.md")["file"]

    for written, by in rows:
        for module in re.findall(r"python -m ([\w.]+)", by):
            found = importlib.util.find_spec(module)
            assert found is not None, module
            assert found.origin is not None, module
            assert '__name__ == "__main__"' in Path(found.origin).read_text(encoding="utf-8"), module
        for path in code(written):
            assert (ROOT / path).exists(), path
    assert len(rows) > 5


def test_every_folder_of_tests_is_described_once() -> None:
    """What is real in each is said, and of no other."""
    described = [
        name for folders, _ in tables_of("../CONTRIBUTING.md")["folder of `tests/`"] for name in code(folders)
    ]
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir()} - NO_ROOM

    assert sorted(described) == sorted(f"{name}/" for name in folders)


def test_the_marks_are_those_that_pytest_knows() -> None:
    """Each mark of ours is explained, and no other."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    marks = {mark.partition(":")[0] for mark in settings["tool"]["pytest"]["ini_options"]["markers"]}

    assert set(re.findall(r"@pytest\.mark\.(\w+)", TEXT)) == marks
