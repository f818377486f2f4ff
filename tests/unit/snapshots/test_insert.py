"""Inserting: what is refused, what is replaced, what is superseded, and what makes room."""

from dataclasses import dataclass, replace

import pytest

from app.events import SnapshotInserted, SnapshotRejected, SnapshotRemoved, TraceRef
from app.snapshots.entry import pack
from app.snapshots.store import SnapshotStore
from app.vocabulary import Origin, Rejection, Removal
from tests.support.snapshots import BUCKET, Block, Heard, limits

A, B, C = [1, 2], [1, 2, 3, 4], [1, 2, 3, 4, 5, 6]

# Rejections.


def test_a_store_that_is_off_stores_nothing() -> None:
    """Off rejects every snapshot as disabled."""
    heard = Heard(limits(enabled=False))

    assert heard.put(A) is Rejection.DISABLED
    assert heard.held == []


def test_a_state_below_the_minimum_is_too_short() -> None:
    """The shortest prefix is stored, one token less is not."""
    heard = Heard(limits(min_prefix_tokens=4))

    assert heard.put([1, 2, 3]) is Rejection.TOO_SHORT
    assert heard.put([1, 2, 3, 4]) is None


def test_an_oversized_snapshot_costs_nobody_anything() -> None:
    """What can never fit is rejected before its ancestor is superseded, its equal replaced or room made."""
    heard = Heard(limits(capacity_bytes=10, max_arrays=10))
    heard.put(A, nbytes=4)
    heard.put(B, session="other", nbytes=6)
    before = heard.store.occupancy()

    assert heard.put(B, nbytes=11) is Rejection.OVERSIZED
    assert heard.put(A, nbytes=11) is Rejection.OVERSIZED
    assert heard.put(B, arrays=11) is Rejection.OVERSIZED
    assert heard.store.occupancy() == before
    assert heard.removals == []
    assert heard.events[-1] == SnapshotRejected(
        Rejection.OVERSIZED, Origin.BOUNDARY, "s", tokens=4, nbytes=1, capacity_bytes=10, tenant="acme"
    )


def test_what_was_refused_elsewhere_is_counted_here() -> None:
    """A refusal decided by the engine is told with its numbers and touches nothing."""
    heard = Heard()
    heard.store.refuse(
        Rejection.UNSUPPORTED, origin=Origin.COMPLETION, session="s", tokens=9, nbytes=0, cause=None
    )

    assert heard.events == [
        SnapshotRejected(Rejection.UNSUPPORTED, Origin.COMPLETION, "s", 9, 0, heard.limits.capacity_bytes)
    ]


# Replacement.


def test_an_equal_vector_replaces_and_is_no_eviction() -> None:
    """The same tokens, session and origin again: one entry, of the new size, removed as replaced."""
    heard = Heard()
    heard.put(A, nbytes=5)
    heard.put(A, nbytes=7)

    assert heard.held == [2]
    assert heard.store.occupancy().nbytes == 7
    assert heard.removals == [(1, Removal.REPLACED)]


def test_a_replaced_entry_is_freed_before_room_is_made() -> None:
    """Replacing an entry in a full store evicts nobody: the old size does not count against the new."""
    heard = Heard(limits(capacity_bytes=10))
    heard.put(A, session="other", nbytes=4)
    heard.put(A, nbytes=6)
    heard.put(A, nbytes=6)

    assert heard.held == [1, 3]
    assert heard.removals == [(2, Removal.REPLACED)]


@pytest.mark.parametrize("origin", list(Origin))
def test_an_equal_vector_of_another_origin_stays(origin: Origin) -> None:
    """Boundary, completion and system entries of one vector live side by side."""
    heard = Heard()
    for each in Origin:
        heard.put(A, origin=each)
    assert heard.removals == []

    heard.put(A, origin=origin)
    assert [reason for _, reason in heard.removals] == [Removal.REPLACED]
    assert len(heard.held) == 3


# Supersede.


def test_three_turns_of_a_session_leave_one_entry() -> None:
    """A conversation that grows holds one entry, of its latest size; the earlier ones are superseded."""
    heard = Heard()
    for tokens, nbytes in ((A, 10), (B, 20), (C, 30)):
        heard.put(tokens, nbytes=nbytes)

    assert heard.held == [3]
    assert heard.store.occupancy().nbytes == 30
    assert heard.removals == [(1, Removal.SUPERSEDED), (2, Removal.SUPERSEDED)]


def test_a_superseded_entry_is_freed_before_room_is_made() -> None:
    """8,000 and then 9,000 bytes of one conversation fit in 10,000 without an eviction."""
    heard = Heard(limits(capacity_bytes=10_000))
    heard.put(A, nbytes=8_000)
    heard.put(B, nbytes=9_000)

    assert heard.held == [2]
    assert heard.removals == [(1, Removal.SUPERSEDED)]


def test_sessions_do_not_supersede_each_other() -> None:
    """A longer entry of another session, bucket, tenant or none leaves an entry alone."""
    heard = Heard()
    heard.put(A)
    heard.put(B, session="other")
    heard.put(B, bucket=replace(BUCKET, template_signature="tools"))
    heard.put(B, bucket=replace(BUCKET, tenant="other"))
    heard.put(B, session=None)

    assert heard.removals == []


def test_what_has_no_session_supersedes_nothing() -> None:
    """Without a session nobody knows that the longer entry continues the shorter one's conversation."""
    heard = Heard()
    heard.put(A, session=None, cuts_from=0)
    heard.put(B, session=None, cuts_from=0)

    assert heard.held == [1, 2]


@pytest.mark.parametrize("other", [[1, 2, 9, 9, 9], [9, 1, 2], [1, 9]])
def test_a_diverging_vector_supersedes_nothing(other: list[int]) -> None:
    """A conversation that goes another way keeps both ways."""
    heard = Heard()
    heard.put(B)
    heard.put(other, cuts_from=0)

    assert heard.held == [1, 2]


def test_a_shorter_entry_does_not_remove_a_longer_one() -> None:
    """Storing an earlier state again leaves the later one in place."""
    heard = Heard()
    heard.put(B)
    heard.put(A, cuts_from=0)

    assert heard.held == [1, 2]


def test_a_completion_that_cannot_be_cut_leaves_its_turn_s_boundary() -> None:
    """The next turn may send the reply back in other words: only the boundary serves it then."""
    heard = Heard()
    heard.put(A, origin=Origin.BOUNDARY)
    heard.put(B, origin=Origin.COMPLETION)
    assert heard.held == [1, 2]

    assert heard.use([*A, 99, 98, 97]) == len(A)


def test_a_completion_that_can_be_cut_stands_in_for_its_boundary() -> None:
    """Where the longer state can be cut back to the boundary, the boundary's bytes are free."""
    heard = Heard()
    heard.put(A, origin=Origin.BOUNDARY)
    heard.put(B, origin=Origin.COMPLETION, cuts_from=len(A))
    assert heard.removals == [(1, Removal.SUPERSEDED)]

    assert heard.use([*A, 99, 98, 97]) == len(A)


def test_a_completion_that_cannot_be_cut_that_far_does_not_stand_in() -> None:
    """The question is whether the old length can be had, not whether any can."""
    heard = Heard()
    heard.put(A, origin=Origin.BOUNDARY)
    heard.put(B, origin=Origin.COMPLETION, cuts_from=len(A) + 1)

    assert heard.held == [1, 2]


def test_the_next_boundary_supersedes_the_one_before() -> None:
    """Of each origin a session holds its latest state."""
    heard = Heard()
    heard.put([1, 2], origin=Origin.BOUNDARY)
    heard.put([1, 2, 3], origin=Origin.COMPLETION)
    heard.put([1, 2, 3, 4], origin=Origin.BOUNDARY)
    heard.put([1, 2, 3, 4, 5], origin=Origin.COMPLETION)

    assert heard.held == [3, 4]
    assert heard.removals == [(1, Removal.SUPERSEDED), (2, Removal.SUPERSEDED)]


def test_a_system_entry_is_never_superseded() -> None:
    """What all sessions share outlives any one of them, and one system prompt that continues another."""
    heard = Heard()
    heard.put(A, origin=Origin.SYSTEM)
    heard.put(B, origin=Origin.SYSTEM, cuts_from=0)
    heard.put(C, cuts_from=0)

    assert heard.held == [1, 2, 3]


def test_supersede_can_be_switched_off() -> None:
    """Without supersede every turn stays until time or room ends it."""
    heard = Heard(limits(supersede=False))
    for tokens in (A, B, C):
        heard.put(tokens, cuts_from=0)

    assert heard.held == [1, 2, 3]


@dataclass(frozen=True)
class Broken:
    """A payload whose question fails."""

    nbytes: int = 1
    arrays: int = 1

    def can_truncate_to(self, n_tokens: int) -> bool:
        raise ValueError(n_tokens)


def test_a_payload_that_fails_leaves_the_store_as_it_was() -> None:
    """Payloads are asked before anything is removed."""
    store: SnapshotStore[Block | Broken] = SnapshotStore(limits())
    tokens = [pack(A), pack(B), pack(C)]
    for origin, vector in zip((Origin.BOUNDARY, Origin.COMPLETION), tokens, strict=False):
        store.insert(bucket=BUCKET, session="s", origin=origin, tokens=vector, payload=Block())
    before = store.occupancy()

    with pytest.raises(ValueError, match="2"):
        store.insert(bucket=BUCKET, session="s", origin=Origin.COMPLETION, tokens=tokens[2], payload=Broken())
    assert store.occupancy() == before


# What is said.


def test_an_insert_tells_the_whole_story_in_order() -> None:
    """Replaced, superseded, inserted, expired, evicted: the events stand in the order of what was done."""
    heard = Heard(limits(capacity_bytes=10, ttl_seconds=60))
    cause = TraceRef(trace_id=7, span_id=8, sampled=True)
    heard.put([5, 5], session="old", nbytes=1)
    heard.clock.advance(30)
    heard.put([6, 6], session="other", nbytes=5)
    heard.put(A, nbytes=1, cause=cause)
    heard.put(B, nbytes=1, origin=Origin.COMPLETION)
    heard.clock.advance(30)
    heard.put(B, nbytes=9, origin=Origin.COMPLETION, cuts_from=0)

    last = heard.transactions[-1]
    assert [
        (event.entry.id, event.reason if isinstance(event, SnapshotRemoved) else "inserted")
        for event in last.events
        if isinstance(event, SnapshotInserted | SnapshotRemoved)
    ] == [
        (4, Removal.REPLACED),
        (3, Removal.SUPERSEDED),
        (5, "inserted"),
        (1, Removal.TTL),
        (2, Removal.LRU_BYTES),
    ]
    superseded = last.events[1]
    assert isinstance(superseded, SnapshotRemoved)
    assert superseded.inserted_by == cause
    assert (superseded.age_seconds, superseded.idle_seconds, superseded.hits) == (30, 30, 0)


def test_a_removal_tells_the_entry_s_life() -> None:
    """Age runs from the insert, idleness from the last hit, and hits are counted."""
    heard = Heard()
    heard.put(A)
    heard.clock.advance(10)
    heard.use(C)
    heard.clock.advance(5)
    heard.put(B)

    removed = heard.events[-2]
    assert isinstance(removed, SnapshotRemoved)
    assert (removed.age_seconds, removed.idle_seconds, removed.hits) == (15, 5, 1)
