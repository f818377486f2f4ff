"""Every family of models keeps every law on the path that serves it, and docs/families.md says how."""

from itertools import combinations

import pytest

from tests.families.laws import LAWS, LOGPROB_TOLERANCE, apart
from tests.families.table import documented, measure
from tests.support.families import FAMILIES


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_the_law_holds(family, name, law):
    """Restored, replayed, batched, interleaved or cut back: a reply is what a cold engine says alone."""
    law(family(name))


@pytest.mark.parametrize("name", FAMILIES)
def test_the_document_says_what_the_family_does(family, name):
    """The family's line in docs/families.md is what was measured just now."""
    assert measure(family(name)).render() in documented().splitlines()


def test_the_document_lists_exactly_the_families_that_are_tested():
    """No family is missing from the table, and none stands in it untested."""
    listed = [line.split("`")[1] for line in documented().splitlines() if line.startswith("| `")]

    assert listed == sorted(FAMILIES)


@pytest.mark.parametrize("name", FAMILIES)
def test_replies_vary_with_the_prompt(family, name):
    """A model that says the same to everything would keep any law."""
    model = family(name)
    said = [model.cold(model.ask([text])) for text in ("one day", "two days", "thirteen days")]

    for one, other in combinations(said, 2):
        assert apart(one, other) > 10 * LOGPROB_TOLERANCE
