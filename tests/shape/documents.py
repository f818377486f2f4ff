"""Reads the tables of a page of docs/, for tests that hold a page to the code."""

import re
from collections import defaultdict
from itertools import groupby
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def tables_of(name: str) -> dict[str, list[list[str]]]:
    """Name of the first column → the rows of all tables whose first column has it."""
    found: dict[str, list[list[str]]] = defaultdict(list)
    lines = (DOCS / name).read_text(encoding="utf-8").splitlines()
    for is_table, rows in groupby(lines, lambda line: line[:1] == "|"):
        if is_table:
            header, _, *body = ([cell.strip() for cell in line.strip("|").split("|")] for line in rows)
            found[header[0]] += body
    return found


def code(cell: str) -> list[str]:
    """What is set as code in a cell."""
    return re.findall(r"`([^`]+)`", cell)
