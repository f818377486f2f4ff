"""Replies that are JSON: their numbers stay within what readers can hold, and nothing else is touched."""

import pytest

from tests.support.held import Holding


@pytest.fixture(scope="module")
def holding(tiny) -> Holding:
    return Holding(tiny("llama"))


def next_after(holding, begun, *, schema=None):
    """The letters that may come after the beginning of any JSON, or of JSON of a schema."""
    held = holding.held(schema=schema or {})
    assert held is not None
    walk = held.begin()
    for token in holding.model.tokenise(begun, special=False):
        walk.take(token)
    allowed = walk.allowed()
    assert walk.failure == ""
    letters = {
        letter: holding.model.tokenise(letter, special=False)[0] for letter in map(chr, range(32, 127))
    }
    return {letter for letter, token in letters.items() if allowed[token // 8] >> token % 8 & 1}


@pytest.mark.parametrize(
    ("begun", "more"),
    [
        ('{"a": [-2.5E+12', "3"),
        ("[1e99", "9"),
        ("[1e-10", "0"),
        ("[" + "9" * 100, "9"),
        ("[0." + "3" * 100, "3"),
        (r'["\"", 1e99', "9"),
    ],
)
def test_a_number_ends_before_it_is_too_large_for_its_reader(holding, begun, more):
    """Two digits of an exponent, a hundred in a row: more are kept out, and what ends the number is not."""
    said = next_after(holding, begun)

    assert more not in said
    assert {",", "]"} <= said
    assert more in next_after(holding, begun[:-1])


@pytest.mark.parametrize("begun", ['"1e99', r'["a\"' + "9" * 120, '{"' + "7" * 101, r'["\\\"1e123'])
def test_digits_in_a_string_are_no_number(holding, begun):
    """However many, behind whatever is escaped."""
    assert "9" in next_after(holding, begun)


def test_an_e_in_a_word_is_no_exponent(holding):
    """Behind it a number begins anew."""
    assert "5" in next_after(holding, "[true, false, 12")


def test_a_number_that_cannot_end_there_goes_on(holding):
    """Where nothing but another digit may come, it comes: to be stuck would be worse."""
    thousands = {"type": "integer", "multipleOf": 1000}

    assert next_after(holding, "1" + "0" * 100 + "1", schema=thousands) == set("0123456789")
    assert "0" not in next_after(holding, "1" + "0" * 100, schema=thousands)


def test_a_reply_that_is_continued_in_a_number_is_bounded_by_what_is_there(holding):
    """The digits of the last message count."""
    said = ({"role": "user", "content": "Say it."}, {"role": "assistant", "content": "1e99"})
    held = holding.held(*said, schema={"type": "number"})
    assert held is not None
    (nine,) = holding.model.tokenise("9", special=False)

    assert not held.begin().allowed()[nine // 8] >> nine % 8 & 1
