"""Entries end by time, by a reset or under pressure, and nothing keeps their state after that."""

import gc
import weakref

import pytest

from app.snapshots.entry import pack
from app.snapshots.store import Cleared
from app.vocabulary import Origin, Removal, StoreCall
from tests.support.snapshots import BUCKET, Block, Heard, limits

# Time to live.


def test_an_unused_entry_dies_exactly_at_its_time() -> None:
    """Half-open: one tick before the time to live it is there, at it it is gone."""
    heard = Heard(limits(ttl_seconds=60))
    heard.put([1, 1])
    heard.clock.advance(59.75)
    assert heard.store.sweep() == 0
    heard.clock.advance(0.25)

    assert heard.store.sweep() == 1
    assert heard.removals == [(1, Removal.TTL)]
    assert heard.store.sweep() == 0


def test_use_renews_the_time_to_live() -> None:
    """The time to live slides: a conversation in use never expires."""
    heard = Heard(limits(ttl_seconds=60))
    heard.put([1, 1])
    for _ in range(5):
        heard.clock.advance(59)
        assert heard.use([1, 1, 1]) == 2
    heard.clock.advance(60)

    assert heard.store.sweep() == 1


def test_without_a_time_to_live_nothing_expires() -> None:
    """No time to live is no limit, and not one of zero."""
    heard = Heard(limits(ttl_seconds=None))
    heard.put([1, 1])
    heard.clock.advance(10**9)

    assert heard.store.sweep() == 0
    assert heard.use([1, 1, 1]) == 2


def test_a_lookup_does_not_see_the_dead() -> None:
    """Expired entries are removed before a lookup, in a transaction of its own."""
    heard = Heard(limits(ttl_seconds=60))
    heard.put([1, 1])
    heard.clock.advance(60)

    assert heard.find([1, 1, 1]).candidates == ()
    assert heard.transactions[-1].call is StoreCall.SWEEP
    assert heard.removals == [(1, Removal.TTL)]


def test_a_sweep_ends_at_the_first_entry_alive() -> None:
    """The order of use is the order of expiry: the dead are at its beginning, whatever their age."""
    heard = Heard(limits(ttl_seconds=60, max_entries=9))
    for number in range(5):
        heard.put([number, 0], session=str(number))
        heard.clock.advance(10)
    assert heard.use([0, 0, 0], session="0") == 2
    heard.clock.advance(25)

    assert heard.store.sweep() == 1
    assert heard.removals == [(2, Removal.TTL)]
    assert heard.held == [3, 4, 5, 1]


# Reset and pressure.


def test_a_reset_removes_everything_and_says_how_much() -> None:
    """All entries go in one transaction; the numbers told are those of the very removal."""
    heard = Heard()
    heard.put([1, 1], nbytes=5)
    heard.put([2, 2], nbytes=6, session=None)
    heard.put([3, 3], nbytes=7, origin=Origin.SYSTEM)

    assert heard.store.clear() == Cleared(entries=3, nbytes=18)
    assert heard.removals == [(number, Removal.CLEARED) for number in (1, 2, 3)]
    assert heard.transactions[-1].call is StoreCall.CLEAR
    held = heard.store.occupancy()
    assert (held.entries, held.nbytes, held.arrays) == (0, 0, 0)


def test_a_reset_of_nothing_is_silent() -> None:
    """A second reset finds nothing, says so to its caller, and is no event."""
    heard = Heard()
    assert heard.store.clear() == Cleared(0, 0)
    assert heard.transactions == []


def test_pressure_frees_what_was_asked_for_and_no_entry_more() -> None:
    """Under pressure the least recently used go until enough bytes are free."""
    heard = Heard()
    for number in range(4):
        heard.put([number, 0], nbytes=10)

    assert heard.store.shed(11) == 20
    assert heard.removals == [(1, Removal.PRESSURE), (2, Removal.PRESSURE)]
    assert heard.self_evictions == []
    assert heard.store.shed(0) == 0
    assert heard.store.shed(1_000) == 20
    assert heard.store.shed(1) == 0


def test_pressure_takes_the_dead_first_and_counts_what_they_free() -> None:
    """Expired entries leave as expired, and their bytes are bytes freed."""
    heard = Heard(limits(ttl_seconds=60))
    heard.put([1, 1], nbytes=10)
    heard.clock.advance(60)
    heard.put([2, 2], nbytes=10, session="other")
    heard.clock.advance(60)
    heard.put([3, 3], nbytes=10, session="third")
    heard.clock.advance(1)

    assert heard.store.shed(5) == 10
    assert heard.removals == [(1, Removal.TTL), (2, Removal.TTL), (3, Removal.PRESSURE)]


# Release.


@pytest.mark.parametrize("how", ["superseded", "replaced", "evicted", "expired", "shed", "cleared"])
def test_a_removed_state_is_let_go(how: str) -> None:
    """Once its entry is removed nothing of the store keeps a payload alive, its events included."""
    heard = Heard(limits(max_entries=1, ttl_seconds=60))
    payload = Block()
    state = weakref.ref(payload)
    heard.store.insert(
        bucket=BUCKET, session="s", origin=Origin.BOUNDARY, tokens=pack([1, 2]), payload=payload
    )
    del payload
    assert state() is not None

    match how:
        case "superseded":
            heard.put([1, 2, 3])
        case "replaced":
            heard.put([1, 2])
        case "evicted":
            heard.put([9, 9])
        case "expired":
            heard.clock.advance(60)
            heard.store.sweep()
        case "shed":
            heard.store.shed(1)
        case _:
            heard.store.clear()
    gc.collect()
    assert heard.removals
    assert state() is None
