import random
from collections import Counter

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import StatusCode

from app.events import (
    CaptureDeclined,
    EngineRebuilt,
    FinishReason,
    Origin,
    Outcome,
    PayloadRestored,
    PayloadSealed,
    Rejection,
    RequestEnded,
    TraceRef,
)
from app.telemetry.spans import MAX_REMOVAL_SPANS, SUMMARY_SPAN
from tests.support.snapshots import limits
from tests.telemetry.generations import generation
from tests.telemetry.spans_room import (
    CLOCK_START,
    HASH_SESSION,
    UNIX_START,
    SpansRoom,
    context_of,
    is_child,
    named,
    names,
)
from tests.telemetry.store_life import busy_limits, random_life

UNSAMPLED = TraceRef(0xAAAA, 0xBBBB, sampled=False)


@pytest.fixture
def room():
    return SpansRoom()


def attributes(span: ReadableSpan) -> dict[str, object]:
    """Attributes under their short names."""
    return {key.removeprefix("samovar.snapshot."): value for key, value in (span.attributes or {}).items()}


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


def test_roots_are_sampled_like_any_trace():
    """With a ratio of 0 housekeeping makes no spans, neither its root nor children without one."""
    room = SpansRoom(sample_ratio=0.0)
    fill(room, 3)
    room.store.clear()
    assert room.take() == ()


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


def test_copying_state_is_told_with_its_times(room):
    """Capture and restore spans begin and end when the copying did, in Unix time."""
    request = room.request()
    room.clock.advance(100)
    room.hear(
        PayloadSealed(Origin.SYSTEM, request, CLOCK_START + 10, CLOCK_START + 10.25, tokens=5, nbytes=64),
        PayloadRestored(request, CLOCK_START + 20, CLOCK_START + 20.5, tokens=5, nbytes=64, error=None),
    )
    capture, restore = room.take()
    assert [capture.name, restore.name] == ["snapshot.capture", "snapshot.restore"]
    assert is_child(capture, request)
    assert is_child(restore, request)
    assert (capture.start_time, capture.end_time) == (UNIX_START + 10 * 10**9, UNIX_START + 10_250_000_000)
    assert (restore.start_time, restore.end_time) == (UNIX_START + 20 * 10**9, UNIX_START + 20_500_000_000)
    assert attributes(capture) == {"origin": "system", "tokens": 5, "bytes": 64}
    assert attributes(restore) == {"tokens": 5, "bytes": 64}
    assert restore.status.status_code is StatusCode.UNSET


def test_copying_that_failed_is_told_as_that(room):
    """A failed restore is an error span; a state that cannot be sealed says so."""
    room.hear(
        PayloadRestored(None, 1.0, 2.0, tokens=5, nbytes=64, error="wrong shape"),
        PayloadSealed(Origin.BOUNDARY, None, 1.0, 2.0, tokens=5, nbytes=None),
    )
    restore, capture = room.take()
    assert (restore.status.status_code, restore.status.description) == (StatusCode.ERROR, "wrong shape")
    assert attributes(capture)["outcome"] == Rejection.UNSUPPORTED


def test_a_generation_is_three_spans_end_to_end(room):
    """Queue, prefill and decode are siblings under the request, each beginning where the one before ends."""
    request = room.request()
    room.hear(generation(cause=request))
    spans = room.take()
    assert names(spans) == ["queue", "prefill", "decode"]
    assert all(is_child(span, request) for span in spans)
    queue, prefill, decode = spans
    assert (queue.end_time, prefill.end_time) == (prefill.start_time, decode.start_time)
    assert decode.end_time == UNIX_START + 8 * 10**9
    assert dict(prefill.attributes or {}) == {
        "samovar.prefill.tokens": 40,
        "samovar.prefill.cached_tokens": 60,
    }
    assert dict(decode.attributes or {}) == {"samovar.decode.tokens": 9, "samovar.finish_reason": "length"}


def test_a_generation_ends_in_the_stage_it_reached(room):
    """One that failed in prefill has no decode span, and its prefill span carries the error."""
    request = room.request()
    room.hear(
        generation(cause=request, reason=FinishReason.ERROR, first_token=None, error="out of memory"),
        generation(cause=request, reason=FinishReason.CANCELLED, started=None, first_token=None),
    )
    queue, prefill, waiting = room.take()
    assert [queue.name, prefill.name, waiting.name] == ["queue", "prefill", "queue"]
    assert (prefill.status.status_code, prefill.status.description) == (StatusCode.ERROR, "out of memory")
    assert queue.status.status_code is StatusCode.UNSET
    assert (waiting.attributes or {})["samovar.finish_reason"] == "cancelled"
    assert waiting.end_time == UNIX_START + 8 * 10**9


def test_a_generation_of_no_trace_makes_no_spans(room):
    """Stages belong under a request; without one they would be three stray roots."""
    room.hear(generation())
    assert room.take() == ()


def test_other_events_make_no_spans(room):
    """The HTTP side makes the request's own span, and a decline or rebuild is no stretch of time."""
    room.hear(
        CaptureDeclined("history_rewritten", room.request()),
        RequestEnded("/v1/messages", Outcome.COMPLETED, 200, 1.0),
        EngineRebuilt("RuntimeError", 1),
    )
    assert room.take() == ()


def test_a_sleeping_laptop_does_not_shift_later_spans(room):
    """The clocks part while the machine sleeps; a span after that is placed by the wall clock of its time."""
    room.put(1)
    room.slept_nanoseconds = 8 * 3600 * 10**9
    room.put(2)
    before, after = room.take()
    assert before.start_time == UNIX_START
    assert after.start_time == UNIX_START + 8 * 3600 * 10**9


@pytest.mark.parametrize("seed", range(4))
def test_spans_and_counters_tell_the_same_story(seed):
    """Over a random life of a store, spans by name and reason are exactly what the tally counted."""
    room = SpansRoom(busy_limits())
    random_life(room, random.Random(seed), 2500)
    counted = room.tally.read()
    removals: Counter[object] = Counter()
    lookups: Counter[object] = Counter()
    rejections: Counter[object] = Counter()
    inserts: Counter[object] = Counter()
    self_evictions = summaries = 0
    for span in room.take():
        facts = attributes(span)
        match span.name:
            case "snapshot.insert" if facts["outcome"] == "inserted":
                inserts[facts["origin"]] += 1
            case "snapshot.reject":
                rejections[facts["reason"]] += 1
            case "snapshot.lookup":
                lookups[facts["outcome"]] += 1
            case name if name == SUMMARY_SPAN:
                summaries += 1
                self_evictions += int(str(facts["self_evictions"]))
                for key, count in facts.items():
                    if key.startswith("removals."):
                        removals[key.removeprefix("removals.")] += int(str(count))
            case "snapshot.insert" | "snapshot.sweep" | "snapshot.clear" | "snapshot.shed":
                pass
            case _:
                removals[facts["reason"]] += 1
                self_evictions += facts["self_eviction"] is True
    assert inserts == Counter({str(key): n for key, n in counted.inserts.items() if n})
    assert removals == Counter({str(key): n for key, n in counted.removals.items() if n})
    assert rejections == Counter({str(key): n for key, n in counted.rejections.items() if n})
    assert lookups == Counter({key: n for key, n in counted.lookups.items() if n})
    assert self_evictions == counted.self_evictions
    assert summaries > 0, "no call removed enough for a summary, so that case was not compared"
    assert len(removals) >= 6, "the life was too quiet to compare removals"


def test_no_span_holds_a_session_in_clear(room):
    """The client's key appears nowhere in what is exported, and equal sessions have equal hashes."""
    room.put(1, 2, session="secret-key-of-alice")
    room.put(1, 2, 3, session="secret-key-of-alice")
    room.look_up(1, 2, 3, 4, session="secret-key-of-alice")
    room.store.clear()
    spans = room.take()
    assert not any("secret" in span.to_json() for span in spans)
    hashes = {attributes(span).get("session.hash") for span in spans if span.name != "snapshot.clear"}
    assert hashes == {HASH_SESSION("secret-key-of-alice")}


def test_the_spans_of_one_request_are_one_trace(room):
    """All that a request caused can be found by its trace id."""
    request = room.request()
    room.look_up(1, 2, cause=request)
    room.put(1, cause=request)
    room.put(1, 2, cause=request)
    room.hear(generation(cause=request))
    spans = room.take()
    assert {context_of(span).trace_id for span in spans} == {request.trace_id}
    assert len(spans) == 7
