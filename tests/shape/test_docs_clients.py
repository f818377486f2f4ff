"""docs/clients.md names tests that exist, and README leads to it."""

import pytest

from tests.shape.documents import DOCS, code, tables_of

ROOT = DOCS.parent
ROWS = tables_of("clients.md")["client"]


@pytest.mark.parametrize(("client", "tests"), [(row[0], row[2]) for row in ROWS])
def test_each_client_has_a_test_that_knows_it(client, tests):
    """Each file that its row names is there and speaks of it."""
    name = client.strip("`").lower()

    assert code(tests)
    for file in code(tests):
        assert name in (ROOT / file).read_text(encoding="utf-8").lower(), file


def test_the_page_is_found():
    """From the front page of the repository."""
    assert "(docs/clients.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
