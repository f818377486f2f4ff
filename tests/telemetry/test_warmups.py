"""Warm-ups as an operator sees them: counted by outcome, and a span where something was computed."""

from app.events import TraceRef, WarmupEnded
from app.vocabulary import Warmup
from tests.telemetry.metrics_room import MetricsRoom
from tests.telemetry.spans_room import SpansRoom, attributes, is_child, names


def test_every_outcome_is_a_series_and_starts_at_zero():
    """`increase()` sees the first one."""
    room = MetricsRoom()

    assert all(room.value("samovar_warmups_total", outcome=outcome) == 0 for outcome in Warmup)
    assert room.value("samovar_warmup_tokens_total") == 0


def test_outcomes_and_computed_tokens_are_counted():
    """Tokens of an attempt that was interrupted were computed all the same."""
    room = MetricsRoom()
    room.hear(
        WarmupEnded(Warmup.PREEMPTED, None, 1.0, 2.0, tokens=500, computed_tokens=128),
        WarmupEnded(Warmup.RUN, None, 3.0, 4.0, tokens=500, computed_tokens=300),
        WarmupEnded(Warmup.COVERED, None, None, 5.0, tokens=500),
    )

    counted = {outcome: room.value("samovar_warmups_total", outcome=outcome) for outcome in Warmup}
    assert {outcome: count for outcome, count in counted.items() if count} == {
        Warmup.PREEMPTED: 1,
        Warmup.RUN: 1,
        Warmup.COVERED: 1,
    }
    assert room.value("samovar_warmup_tokens_total") == 428


def test_a_warmup_that_ran_is_a_span_of_the_request_it_follows():
    """With its outcome and its tokens; what was never run makes none."""
    room = SpansRoom()
    request = room.request()
    room.hear(
        WarmupEnded(Warmup.RUN, request, 1.0, 2.0, tokens=500, computed_tokens=300),
        WarmupEnded(Warmup.COVERED, request, None, 3.0, tokens=500),
        WarmupEnded(Warmup.RUN, TraceRef(5, 6, sampled=False), 1.0, 2.0, tokens=500, computed_tokens=300),
    )

    spans = room.take()
    assert names(spans) == ["snapshot.warmup"]
    assert is_child(spans[0], request)
    assert attributes(spans[0]) == {"outcome": "run", "tokens": 500, "computed_tokens": 300}
