"""The one line of each request, whatever it came to."""

import itertools
from typing import Any

import pytest
import structlog

from app.events import Event, RequestEnded, TraceRef
from app.telemetry.log_lines import EventLines
from app.telemetry.logs import Level
from app.vocabulary import FinishReason, Miss, Outcome
from tests.telemetry.generations import generation
from tests.telemetry.log_capture import Written, logging_into
from tests.telemetry.spans_room import HASH_SESSION

CAUSE = TraceRef(0xABC, 0xDEF, sampled=True)
TRACE = {"trace_id": f"{0xABC:032x}", "span_id": f"{0xDEF:016x}"}
FRAME = ("timestamp", "logger", "service")


def request(*job_ids: str, outcome: Outcome = Outcome.COMPLETED, status: int = 200) -> RequestEnded:
    return RequestEnded("/v1/messages", outcome, status, 7.5, job_ids=job_ids, request_id="req-1")


def lines_of(*events: Event, level: Level = "info") -> list[dict[str, Any]]:
    """What is written about events, without what every line has."""
    with logging_into(Written(), level=level) as written:
        listener = EventLines(structlog.get_logger("samovar.events"), hash_session=HASH_SESSION)
        for event in events:
            listener(event)
    return [{key: value for key, value in line.items() if key not in FRAME} for line in written.lines]


WHOLE = {
    "event": "request",
    "level": "info",
    "route": "/v1/messages",
    "status": 200,
    "outcome": "completed",
    "seconds": 7.5,
    "request_id": "req-1",
    "job_id": "job",
    "finish_reason": "length",
    "queue_seconds": 1.0,
    "prefill_seconds": 2.0,
    "decode_seconds": 4.0,
    "prompt_tokens": 100,
    "cached_tokens": 60,
    "stored_tokens": 30,
    "completion_tokens": 9,
    "cache": "hit",
    "session.hash": HASH_SESSION("secret-key"),
    **TRACE,
}


@pytest.mark.parametrize("order", [0, 1], ids=["engine first", "client first"])
def test_a_request_is_one_line_whichever_of_its_ends_comes_first(order):
    """Route, status, stages in seconds, tokens, what the cache did, whose it was, its trace; no text."""
    ends = [generation(cause=CAUSE, session="secret-key", stored_tokens=30), request("job")]
    for so_far in (ends[order], ends[1 - order]):
        assert lines_of(so_far) == [], "half of the story is no line"
    assert lines_of(ends[order], ends[1 - order]) == [WHOLE]


def test_a_miss_says_why_and_a_failure_what_happened():
    """A stage that was not reached is left out; an error stands beside the reason of the miss."""
    (line,) = lines_of(
        generation(
            reason=FinishReason.ERROR, first_token=None, cached_tokens=0, miss=Miss.DIVERGED, error="stopped"
        ),
        request("job", outcome=Outcome.FAILED, status=500),
    )
    assert (line["cache"], line["miss"], line["error"]) == ("miss", "diverged", "stopped")
    assert (line["level"], line["queue_seconds"], line["prefill_seconds"]) == ("warning", 1.0, 6.0)
    assert "decode_seconds" not in line
    assert "trace_id" not in line


def test_one_that_left_the_queue_by_itself_says_nothing_of_the_cache():
    """Nothing was looked up for it."""
    (line,) = lines_of(
        request("job", outcome=Outcome.CANCELLED, status=499),
        generation(reason=FinishReason.CANCELLED, started=None, first_token=None),
    )
    assert (line["outcome"], line["queue_seconds"], line["finish_reason"]) == ("cancelled", 7.0, "cancelled")
    assert not {"cache", "miss"} & line.keys()


@pytest.mark.parametrize("outcome", Outcome)
def test_a_request_that_reached_no_engine_is_one_line_at_once(outcome):
    """Refused and invalid ones are told as well; only the server's own failure is a warning."""
    (line,) = lines_of(request(outcome=outcome, status=400))
    assert line == {
        "event": "request",
        "level": "warning" if outcome is Outcome.FAILED else "info",
        "route": "/v1/messages",
        "status": 400,
        "outcome": outcome.value,
        "seconds": 7.5,
        "request_id": "req-1",
    }


def test_a_request_of_several_jobs_is_one_line_in_every_order():
    """Tokens add up, a stage lasts as long as the longest, and the last end of all writes the line."""
    ends: list[Event] = [
        generation(job_id="a", session="s"),
        generation(job_id="b", session="s", ended=1_000_012.0, generated_tokens=1),
        request("a", "b"),
    ]
    for order in itertools.permutations(ends):
        (line,) = lines_of(*order)
        assert (line["job_id"], line["prompt_tokens"], line["completion_tokens"]) == ("a", 200, 10)
        assert line["decode_seconds"] == 1_000_012.0 - 1004.0


def test_requests_do_not_mix():
    """Each takes the end of its own job, and only once."""
    lines = lines_of(
        generation(job_id="a", prompt_tokens=1, cached_tokens=0),
        request("b"),
        request("a"),
        generation(job_id="b", prompt_tokens=2, cached_tokens=0),
    )
    assert [(line["job_id"], line["prompt_tokens"]) for line in lines] == [("a", 1), ("b", 2)]
