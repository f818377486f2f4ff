"""docs/warmup.md is what the committed result says, and the result is what was promised."""

import json

from benchmarks.warmup_bench import PAGE, RESULT, TALKS, current


def test_no_number_of_the_page_is_typed_by_hand():
    """The page is written from benchmarks/results."""
    assert PAGE.read_text() == current()


def test_a_warmed_turn_computes_its_own_text_and_little_more():
    """At most 16 tokens beyond the new message, in every style and turn of the page."""
    result = json.loads(RESULT.read_text())
    warmed = [turn["warmed"] for style in TALKS for turn in result[style][1:]]

    assert len(warmed) == sum(len(talk.messages) - 1 for talk in TALKS.values()) > 0
    for turn in warmed:
        assert turn["prompt_tokens"] - turn["cached_tokens"] <= turn["own_tokens"] + 16
