"""Spans of what is no transaction of the store: copying state, and the stages of a generation."""

import pytest
from opentelemetry.trace import StatusCode

from app.events import CaptureDeclined, EngineRebuilt, PayloadRestored, PayloadSealed, RequestEnded
from app.vocabulary import FinishReason, Origin, Outcome, Rejection
from tests.telemetry.generations import generation
from tests.telemetry.spans_room import (
    CLOCK_START,
    UNIX_START,
    SpansRoom,
    attributes,
    context_of,
    is_child,
    names,
)


@pytest.fixture
def room():
    return SpansRoom()


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
    room.hear(generation(cause=request, stored_tokens=30))
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
    assert dict(decode.attributes or {}) == {
        "samovar.decode.tokens": 9,
        "samovar.finish_reason": "length",
        "gen_ai.usage.cache_creation.input_tokens": 30,
    }


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
