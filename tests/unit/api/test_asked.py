"""Laws of the checks that every API shares."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.asked import reply_limit, stop_strings
from app.errors import RequestError


@given(wanted=st.none() | st.integers(1, 300), prompt=st.integers(1, 199))
def test_a_reply_is_never_longer_than_what_the_context_leaves(wanted: int | None, prompt: int) -> None:
    """What is wanted, or all that is left; never more than that."""
    limit = reply_limit(wanted, prompt_tokens=prompt, context_length=200, param="messages")

    assert limit == min(wanted or 200, 200 - prompt)


@pytest.mark.parametrize("prompt_tokens", [200, 201])
def test_a_prompt_without_place_for_a_reply_is_refused_with_both_numbers(prompt_tokens: int) -> None:
    """It says how long the prompt is, how long it may be, and in which field it is."""
    with pytest.raises(RequestError, match=rf"{prompt_tokens} tokens.* 200 tokens") as refusal:
        reply_limit(None, prompt_tokens=prompt_tokens, context_length=200, param="input")

    assert (refusal.value.code, refusal.value.param) == ("context_length_exceeded", "input")


def test_stop_is_one_string_or_several() -> None:
    """A single stop string is a list of one; none is an empty list."""
    assert stop_strings("a") == ("a",)
    assert stop_strings(["a", "b"]) == ("a", "b")
    assert stop_strings([]) == stop_strings(None) == ()


@pytest.mark.parametrize("stop", ["", ["a", ""]])
def test_an_empty_stop_string_is_refused(stop: Any) -> None:
    """It would end every reply before it began."""
    with pytest.raises(RequestError) as refusal:
        stop_strings(stop, param="stop_sequences")

    assert refusal.value.param == "stop_sequences"
