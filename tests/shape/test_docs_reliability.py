"""docs/reliability.md names tests that exist."""

import ast
from pathlib import Path

import pytest

from tests.shape.documents import code, tables_of

ROOT = Path(__file__).parents[2]
TABLES = tables_of("reliability.md")
ROWS = [row for rows in TABLES.values() for row in rows]


def test_the_tables_are_those_of_faults_and_complaints():
    """Each row has something that goes wrong, what happens, and one test."""
    assert set(TABLES) == {"fault", "complaint"}
    assert all(len(row) == 3 and len(code(row[2])) == 1 for row in ROWS)
    assert len(TABLES["fault"]) >= 40
    assert len(TABLES["complaint"]) >= 20


@pytest.mark.parametrize("test", sorted({code(row[2])[0] for row in ROWS}))
def test_each_test_that_is_named_exists(test):
    """By its file and its name."""
    file, _, name = test.partition("::")
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))

    assert name in {
        node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
