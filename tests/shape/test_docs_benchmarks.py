"""docs/benchmarks.md is what the committed results say."""

from benchmarks.report import PAGE, current


def test_no_number_of_the_page_is_typed_by_hand():
    """The page is written from benchmarks/results."""
    assert PAGE.read_text() == current()
