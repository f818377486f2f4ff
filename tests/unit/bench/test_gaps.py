"""The arithmetic of gaps between the pieces of replies."""

from collections.abc import Sequence

import pytest

from app.bench.gaps import _before, _Stream, _within, summed


def stream(*replies: Sequence[float]) -> _Stream:
    return _Stream([list(times) for times in replies])


@pytest.mark.parametrize(
    ("replies", "gaps"),
    [
        # Pieces before and after do not count, the waits that the times cut do.
        ([[0, 5, 12, 16, 30]], [2, 4, 4]),
        # A reply that says nothing meanwhile stands still for all of it.
        ([[0, 5]], [10]),
        ([[0, 5, 25]], [10]),
        # From one reply to the next one's first piece is no gap within a reply.
        ([[0, 12], [17]], [2, 3]),
        # A reply that had ended before, and one that has not begun, have none.
        ([[0, 5], []], []),
        ([[0, 5], [25]], []),
    ],
)
def test_gaps_are_those_of_one_reply_between_the_two_times(replies, gaps):
    """What a client of the stream saw between the prompt's arrival and its first token."""
    assert _within(stream(*replies), 10, 20) == gaps


def test_before_the_prompt_only_whole_gaps_count():
    """The one that the prompt's arrival cuts is counted after it."""
    assert _before([1, 3, 4, 12], 10) == [2, 1]


def test_percentiles_are_measured_values():
    """Of few the 99th is the largest; of a hundred it is the last but none above."""
    assert summed([3.0, 1.0, 2.0]).p50_seconds == 2.0
    assert summed([3.0, 1.0, 2.0]).p99_seconds == 3.0
    hundred = summed([float(value) for value in range(1000)])
    assert (hundred.p50_seconds, hundred.p99_seconds, hundred.max_seconds) == (500, 990, 999)
    assert hundred.count == 1000
