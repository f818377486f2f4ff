"""Making room: least recently used first, one's own turn last, and never beyond a limit."""

import random

import pytest

from app.snapshots.stats import stats_payload
from app.vocabulary import Origin, Removal
from tests.support.snapshots import Heard, limits


def test_the_least_recently_used_goes_first() -> None:
    """A hit saves an entry that was stored earlier from one that was stored later."""
    heard = Heard(limits(max_entries=2))
    heard.put([1, 1], session="a")
    heard.put([2, 2], session="b")
    assert heard.use([1, 1, 1], session="a") == 2
    heard.put([3, 3], session="c")

    assert heard.removals == [(2, Removal.LRU_ENTRIES)]
    assert heard.held == [1, 3]


def test_the_byte_limit_evicts_as_many_as_it_takes() -> None:
    """Entries go until what is left fits, and no further."""
    heard = Heard(limits(capacity_bytes=10))
    for number in range(4):
        heard.put([number, 0], session=str(number), nbytes=3 if number else 1)
    assert heard.store.occupancy().nbytes == 10

    heard.put([9, 9], session="new", nbytes=5)
    assert heard.removals == [(1, Removal.LRU_BYTES), (2, Removal.LRU_BYTES), (3, Removal.LRU_BYTES)]
    assert heard.store.occupancy().nbytes == 8


def test_the_array_limit_evicts_too() -> None:
    """Devices limit the number of arrays: a store within its bytes may still hold too many."""
    heard = Heard(limits(max_arrays=100))
    heard.put([1, 1], session="a", arrays=60)
    heard.put([2, 2], session="b", arrays=60)

    assert heard.removals == [(1, Removal.LRU_ARRAYS)]
    assert heard.store.occupancy().arrays == 60


def test_evictions_of_one_s_own_session_are_told_apart() -> None:
    """Three unrelated 8,000-byte states of one session in 12,000 bytes: the budget is too small for it."""
    heard = Heard(limits(capacity_bytes=12_000))
    for first in (1, 2, 3):
        heard.put([first, 0], nbytes=8_000)

    assert heard.removals == [(1, Removal.LRU_BYTES), (2, Removal.LRU_BYTES)]
    assert heard.self_evictions == [1, 2]
    assert stats_payload(heard.tally.read(), heard.limits, now=heard.clock())["snapshot_self_evictions"] == 2


def test_evicting_another_session_is_no_self_eviction() -> None:
    """Neither another session, nor a shared entry, nor what has no session is one's own."""
    heard = Heard(limits(max_entries=1))
    heard.put([1, 1], session="other")
    heard.put([2, 2])
    heard.put([3, 3], origin=Origin.SYSTEM)
    heard.put([4, 4], origin=Origin.SYSTEM)
    heard.put([5, 5], session=None)
    heard.put([6, 6], session=None)

    assert [reason for _, reason in heard.removals] == [Removal.LRU_ENTRIES] * 5
    assert heard.self_evictions == []


def test_a_reply_does_not_push_out_its_own_boundary() -> None:
    """The boundary the next turn will need goes after everybody else's, though it was used longer ago."""
    heard = Heard(limits(max_entries=2))
    heard.put([1, 2], origin=Origin.BOUNDARY)
    heard.put([5, 5], session="other")
    heard.put([1, 2, 3], origin=Origin.COMPLETION)

    assert heard.removals == [(2, Removal.LRU_ENTRIES)]
    assert heard.held == [1, 3]


def test_only_the_newest_boundary_is_spared() -> None:
    """An older turn's boundary is nobody's next turn: it goes like any other entry."""
    heard = Heard(limits(max_entries=2, supersede=False))
    heard.put([1, 2], origin=Origin.BOUNDARY)
    heard.put([1, 2, 3], origin=Origin.BOUNDARY)
    heard.put([1, 2, 3, 4], origin=Origin.COMPLETION)

    assert heard.held == [2, 3]
    assert heard.self_evictions == [1]


def test_a_reply_that_leaves_no_room_takes_its_boundary_s() -> None:
    """Where the newcomer and its boundary do not fit together, the newcomer stays."""
    heard = Heard(limits(capacity_bytes=10))
    heard.put([1, 2], nbytes=6, origin=Origin.BOUNDARY)
    heard.put([1, 2, 3], nbytes=6, origin=Origin.COMPLETION)

    assert heard.held == [2]
    assert heard.self_evictions == [1]


def test_room_is_made_from_the_dead_before_the_living() -> None:
    """An expired entry leaves as expired, and what it frees saves the others."""
    heard = Heard(limits(max_entries=2, ttl_seconds=60))
    heard.put([1, 1], session="dead")
    heard.clock.advance(59)
    heard.put([2, 2], session="alive")
    heard.clock.advance(1)
    heard.put([3, 3], session="new")

    assert heard.removals == [(1, Removal.TTL)]
    assert heard.held == [2, 3]


def test_the_dead_do_not_wait_until_room_is_needed() -> None:
    """An insert removes expired entries though there is room for all."""
    heard = Heard(limits(ttl_seconds=60))
    heard.put([1, 1], session="dead")
    heard.clock.advance(60)
    heard.put([2, 2], session="new")

    assert heard.removals == [(1, Removal.TTL)]


@pytest.mark.parametrize("seed", [1, 2])
def test_five_thousand_inserts_never_exceed_a_limit(seed: int) -> None:
    """After each of many inserts of mixed sessions, origins and sizes every limit holds."""
    draw = random.Random(seed)
    heard = Heard(limits(capacity_bytes=5_000, max_entries=40, max_arrays=300))
    for _ in range(5_000):
        heard.clock.advance(draw.random())
        heard.put(
            [draw.randrange(4) for _ in range(draw.randrange(1, 8))],
            session=draw.choice(["a", "b", "c", None]),
            origin=draw.choice(list(Origin)),
            nbytes=draw.randrange(600),
            arrays=draw.randrange(40),
            cuts_from=draw.choice([None, 0]),
        )
        held = heard.store.occupancy()
        assert heard.limits.exceeded(held.entries, held.nbytes, held.arrays) is None
    reasons = {reason for _, reason in heard.removals}
    assert {Removal.LRU_BYTES, Removal.LRU_ARRAYS, Removal.SUPERSEDED, Removal.REPLACED} <= reasons
