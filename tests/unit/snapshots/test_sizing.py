"""The arithmetic of a capacity."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.snapshots.sizing import (
    Basis,
    Part,
    StateSize,
    for_conversations,
    from_demand,
    from_model,
    snapshots_between_turns,
)

HYBRID = StateSize((Part(1_000, 0), Part(0, 10, 50), Part(0, 2)))
"""A recurrent state, a window of fifty tokens, and attention over all."""

SIZES = st.integers(1, 10**12)


def test_a_state_grows_by_the_token_until_its_window_is_full():
    """Fixed, windowed and growing parts add up."""
    assert [HYBRID.nbytes(tokens) for tokens in (0, 1, 50, 51, 1_000)] == [1_000, 1_012, 1_600, 1_602, 3_500]
    assert HYBRID.fixed_bytes == 1_500
    assert HYBRID.bytes_per_token == 2


def test_what_conversations_need_has_headroom_and_room_for_two():
    """A quarter on top, and one snapshot at least; one conversation gets the room of two and that one."""
    right = for_conversations(HYBRID, sessions=4, tokens=1_000, available_bytes=10**6)
    assert (right.bytes_per_session, right.wanted_bytes, right.capacity_bytes) == (3_500, 17_500, 17_500)
    alone = for_conversations(HYBRID, sessions=1, tokens=1_000, available_bytes=10**6)
    assert alone.wanted_bytes == 10_500
    foretold = for_conversations(HYBRID, sessions=4, tokens=1_000, snapshots_each=2, available_bytes=10**6)
    assert foretold.wanted_bytes == 2 * right.wanted_bytes


@pytest.mark.parametrize(
    ("warmup", "truncatable", "count"),
    [(True, False, 2), (False, False, 1), (True, True, 1), (False, True, 1)],
)
def test_a_next_turn_that_is_prepared_is_a_second_snapshot(warmup, truncatable, count):
    """Unless one state can serve as both."""
    assert snapshots_between_turns(warmup=warmup, truncatable=truncatable) == count


def test_the_start_is_for_conversations_no_longer_than_the_context():
    """Eight of 8,192 tokens, or of as many as the model takes."""
    long = from_model(HYBRID, context_length=100_000, available_bytes=10**9)
    short = from_model(HYBRID, context_length=100, available_bytes=10**9)
    assert long.bytes_per_session == HYBRID.nbytes(8_192)
    assert short.bytes_per_session == HYBRID.nbytes(100)
    assert (long.sessions, long.basis) == (8, Basis.MODEL)


@given(nbytes=SIZES, sessions=st.integers(0, 10_000), largest=SIZES, available=SIZES)
def test_no_recommendation_is_more_than_there_is(nbytes, sessions, largest, available):
    """Whatever was measured: within memory, and it says where that is not enough."""
    right = from_demand(nbytes=nbytes, sessions=sessions, largest_bytes=largest, available_bytes=available)
    assert right.capacity_bytes <= available
    assert right.fits is (right.capacity_bytes == right.wanted_bytes)
    assert right.wanted_bytes >= max(nbytes, 2 * largest) + largest
    assert right.wanted_bytes >= nbytes * 5 // 4
