"""Spans of what the store does."""

from collections import Counter

import pytest

from app.events import PayloadRestored, PayloadSealed, TraceRef
from app.telemetry.spans import MAX_REMOVAL_SPANS, SUMMARY_SPAN
from app.vocabulary import Origin
from tests.support.snapshots import limits
from tests.telemetry.generations import generation
from tests.telemetry.spans_room import (
    HASH_SESSION,
    SpansRoom,
    attributes,
    is_child,
    named,
    names,
)

UNSAMPLED = TraceRef(0xAAAA, 0xBBBB, sampled=False)


@pytest.fixture
def room():
    return SpansRoom()


def test_an_insert_is_a_span_of_its_request(room):
    """The span hangs under the request that caused it and says what went in."""
    request = room.request()
    room.put(1, 2, 3, session="alice", nbytes=70, cause=request)
    (span,) = room.take()
    assert span.name == "snapshot.insert"
    assert is_child(span, request)
    assert attributes(span) == {
        "outcome": "inserted",
        "origin": "boundary",
        "tokens": 3,
        "bytes": 70,
        "arrays": 1,
        "session.hash": HASH_SESSION("alice"),
    }


@pytest.mark.parametrize(
    ("store_limits", "second", "name", "reason"),
    [
        (limits(), {"tokens": (1, 2, 3)}, "snapshot.supersede", "superseded"),
        (limits(), {"tokens": (1, 2)}, "snapshot.replace", "replaced"),
        (limits(capacity_bytes=1), {"tokens": (7, 8), "session": "other"}, "snapshot.evict", "lru_bytes"),
        (limits(max_entries=1), {"tokens": (7, 8), "session": "other"}, "snapshot.evict", "lru_entries"),
        (limits(max_arrays=1), {"tokens": (7, 8), "session": "other"}, "snapshot.evict", "lru_arrays"),
        (limits(ttl_seconds=60), {"tokens": (7, 8), "session": "other"}, "snapshot.expire", "ttl"),
    ],
)
def test_what_an_insert_costs_others_is_told_under_it(store_limits, second, name, reason):
    """Each removal is a child of the insert, named for what happened, linked to the trace that put it in."""
    room = SpansRoom(store_limits)
    first, later = room.request(), room.request()
    room.put(1, 2, session="s", cause=first)
    room.clock.advance(90)
    room.take()
    room.put(*second["tokens"], session=second.get("session", "s"), cause=later)
    insert, removal = room.take()
    assert [insert.name, removal.name] == ["snapshot.insert", name]
    assert is_child(insert, later)
    assert is_child(removal, insert)
    (link,) = removal.links
    assert (link.context.trace_id, link.context.span_id) == (first.trace_id, first.span_id)
    assert attributes(removal) == {
        "reason": reason,
        "origin": "boundary",
        "tokens": 2,
        "bytes": 1,
        "arrays": 1,
        "age_seconds": 90.0,
        "idle_seconds": 90.0,
        "hits": 0,
        "self_eviction": False,
        "session.hash": HASH_SESSION("s"),
    }


def test_a_session_that_pushes_out_its_own_state_is_told_so():
    """The removal says that it was a self-eviction."""
    room = SpansRoom(limits(max_entries=1))
    room.put(1)
    room.put(2)
    assert attributes(named(room.take(), "snapshot.evict"))["self_eviction"] is True


def test_a_rejection_is_told_under_its_insert(room):
    """An oversized snapshot makes an insert span with a reject span in it, and nothing else."""
    request = room.request()
    room.put(1, 2, session="alice", nbytes=10_000_000, cause=request)
    insert, reject = room.take()
    assert [insert.name, reject.name] == ["snapshot.insert", "snapshot.reject"]
    assert is_child(insert, request)
    assert is_child(reject, insert)
    assert attributes(reject) == {
        "outcome": "rejected",
        "reason": "oversized",
        "origin": "boundary",
        "tokens": 2,
        "bytes": 10_000_000,
        "capacity_bytes": 1_000_000,
        "session.hash": HASH_SESSION("alice"),
    }


def test_a_lookup_says_how_it_ended(room):
    """A hit tells what is reused; a miss tells its reason and how much was shared."""
    room.put(1, 2, 3)
    request = room.request()
    room.take()
    room.clock.advance(5)
    room.look_up(1, 2, 3, 4, cause=request)
    room.look_up(1, 2, 9, 9, cause=request)
    hit, miss = room.take()
    assert [hit.name, miss.name] == ["snapshot.lookup", "snapshot.lookup"]
    assert is_child(hit, request)
    assert is_child(miss, request)
    assert attributes(hit) == {
        "outcome": "hit",
        "prompt_tokens": 4,
        "reused_tokens": 3,
        "reuse_gap_seconds": 5.0,
        "failed_restores": 0,
        "origin": "boundary",
        "tokens": 3,
        "bytes": 1,
        "arrays": 1,
        "session.hash": HASH_SESSION("s"),
    }
    assert attributes(miss) == {
        "outcome": "diverged",
        "prompt_tokens": 4,
        "common_prefix_tokens": 2,
        "failed_restores": 0,
    }


@pytest.mark.parametrize(
    ("do", "root_name", "child_name"),
    [
        (lambda room: room.store.sweep(), "snapshot.sweep", "snapshot.expire"),
        (lambda room: room.store.clear(), "snapshot.clear", "snapshot.remove"),
    ],
)
def test_housekeeping_is_a_trace_of_its_own(do, root_name, child_name):
    """Sweeps and clears are roots, even inside another span, with one child a removal that links home."""
    room = SpansRoom(limits(ttl_seconds=60))
    first, second = room.request(), room.request()
    room.put(1, session="a", cause=first)
    room.put(2, session="b", cause=second)
    room.take()
    room.clock.advance(60 if root_name == "snapshot.sweep" else 1)
    with room.tracer.start_as_current_span("ambient"):
        do(room)
    spans = room.take()
    assert names(spans) == [root_name, child_name, child_name, "ambient"]
    root, *children, _ = spans
    assert root.parent is None
    assert all(is_child(child, root) for child in children)
    assert [child.links[0].context.trace_id for child in children] == [first.trace_id, second.trace_id]


def test_memory_pressure_is_a_root_linked_to_its_cause(room):
    """What was shed for a request is told apart from it, but can be found from it."""
    room.put(1, nbytes=10)
    request = room.request()
    room.take()
    room.store.shed(5, cause=request)
    root, evicted = room.take()
    assert [root.name, evicted.name] == ["snapshot.shed", "snapshot.evict"]
    assert root.parent is None
    assert [link.context.span_id for link in root.links] == [request.span_id]
    assert is_child(evicted, root)
    assert attributes(evicted)["reason"] == "pressure"


def fill(room: SpansRoom, entries: int) -> None:
    for n in range(entries):
        room.put(n, session=f"session {n}", nbytes=2)
    room.take()


def test_as_many_removals_as_the_limit_are_told_one_by_one(room):
    """The limit itself still makes a span for each."""
    fill(room, MAX_REMOVAL_SPANS)
    room.store.clear()
    assert Counter(names(room.take())) == {"snapshot.clear": 1, "snapshot.remove": MAX_REMOVAL_SPANS}


def test_more_removals_than_the_limit_make_one_summary(room):
    """One child counts them by reason and adds up their bytes; none has a span of its own."""
    fill(room, MAX_REMOVAL_SPANS + 1)
    room.store.clear()
    root, summary = room.take()
    assert (root.name, summary.name) == ("snapshot.clear", SUMMARY_SPAN)
    assert is_child(summary, root)
    assert attributes(summary) == {
        "removals": MAX_REMOVAL_SPANS + 1,
        "removals.cleared": MAX_REMOVAL_SPANS + 1,
        "bytes": 2 * (MAX_REMOVAL_SPANS + 1),
        "self_evictions": 0,
    }


def test_an_unsampled_request_leaves_no_spans(room):
    """Whatever a request caused, if its trace is not sampled nothing is recorded of it."""
    room.put(1, 2, cause=UNSAMPLED)
    room.put(1, 2, 3, cause=UNSAMPLED)
    room.look_up(1, 2, 3, 4, cause=UNSAMPLED)
    room.store.shed(1, cause=UNSAMPLED)
    room.hear(
        PayloadSealed(Origin.BOUNDARY, UNSAMPLED, 1.0, 2.0, 3, 4),
        PayloadRestored(UNSAMPLED, 1.0, 2.0, 3, 4, None),
        generation(cause=UNSAMPLED),
    )
    assert room.take() == ()
    assert room.hashed_sessions == 0


def test_roots_are_sampled_like_any_trace():
    """With a ratio of 0 housekeeping makes no spans, and what its children would say is not worked out."""
    room = SpansRoom(sample_ratio=0.0)
    fill(room, 3)
    before = room.hashed_sessions
    room.store.clear()
    assert room.take() == ()
    assert room.hashed_sessions == before


def test_a_link_to_an_unsampled_insert_says_so(room):
    """The trace that put an entry in is named even if it was not recorded."""
    room.put(1, cause=UNSAMPLED)
    room.store.clear()
    (link,) = named(room.take(), "snapshot.remove").links
    assert link.context.trace_id == UNSAMPLED.trace_id
    assert not link.context.trace_flags.sampled


def test_an_entry_of_no_trace_has_no_link(room):
    """Where nobody knows who put an entry in, nothing is linked."""
    room.put(1)
    room.store.clear()
    assert named(room.take(), "snapshot.remove").links == ()
