"""What is written about events."""

from typing import Any

import structlog

from app.bus import Bus
from app.events import (
    CaptureDeclined,
    EngineRebuilt,
    Event,
    PayloadRestored,
    PayloadSealed,
    RequestEnded,
    TraceRef,
)
from app.telemetry.log_lines import EventLines
from app.telemetry.logs import Level
from app.vocabulary import Origin, Outcome
from tests.support.jobs import make_job
from tests.support.serving_room import ServingRoom
from tests.support.snapshots import Heard, limits
from tests.telemetry.log_capture import Written, logging_into
from tests.telemetry.spans_room import HASH_SESSION

CAUSE = TraceRef(0xABC, 0xDEF, sampled=True)
TRACE = {"trace_id": f"{0xABC:032x}", "span_id": f"{0xDEF:016x}"}
FRAME = ("timestamp", "logger", "service")


def lines_of(*events: Event, level: Level = "debug") -> list[dict[str, Any]]:
    """What is written about events, without what every line has."""
    with logging_into(Written(), level=level) as written:
        bus = Bus([("logs", EventLines(structlog.get_logger("samovar.events"), hash_session=HASH_SESSION))])
        for event in events:
            bus.publish(event)
    assert not any(bus.failures().values())
    return [{key: value for key, value in line.items() if key not in FRAME} for line in written.lines]


def test_a_rebuild_is_an_error():
    """A step that raised cost requests."""
    (line,) = lines_of(EngineRebuilt("RuntimeError", 3), level="error")
    assert line == {"event": "engine rebuilt", "level": "error", "error": "RuntimeError", "failed_jobs": 3}


def test_copying_and_declining_are_details():
    """Captures, restores and declines are debug lines with their trace."""
    assert lines_of(
        PayloadSealed(Origin.SYSTEM, CAUSE, 1.0, 1.5, tokens=5, nbytes=64),
        PayloadRestored(CAUSE, 1.0, 1.25, tokens=5, nbytes=64, error="wrong shape"),
        CaptureDeclined("history_rewritten", CAUSE),
    ) == [
        {
            "event": "snapshot captured",
            "level": "debug",
            "origin": "system",
            "tokens": 5,
            "bytes": 64,
            "seconds": 0.5,
            **TRACE,
        },
        {
            "event": "snapshot restored",
            "level": "debug",
            "tokens": 5,
            "bytes": 64,
            "seconds": 0.25,
            "error": "wrong shape",
            **TRACE,
        },
        {"event": "capture declined", "level": "debug", "reason": "history_rewritten", **TRACE},
    ]


def store_life() -> Heard:
    """An insert, a supersede, a lookup of each kind, a rejection and a clear."""
    heard = Heard(limits(capacity_bytes=100))
    heard.put([1, 2], session="secret-key", cause=CAUSE)
    heard.put([1, 2, 3], session="secret-key")
    heard.use([1, 2, 3, 4], session="secret-key")
    heard.use([9, 9], session="secret-key")
    heard.put([5], session="secret-key", nbytes=101)
    heard.store.clear()
    return heard


def test_each_event_of_the_store_is_one_line_in_order():
    """One debug line an event, with the call and the sequence number it belongs to."""
    heard = store_life()
    lines = lines_of(*heard.transactions)
    assert [(line["event"], line["call"], line["seq"]) for line in lines] == [
        ("snapshot inserted", "insert", 1),
        ("snapshot removed", "insert", 2),
        ("snapshot inserted", "insert", 2),
        ("snapshot lookup", "lookup", 3),
        ("snapshot lookup", "lookup", 4),
        ("snapshot rejected", "insert", 5),
        ("snapshot removed", "clear", 6),
    ]
    assert {line["level"] for line in lines} == {"debug"}
    assert [line.get("reason") for line in lines if line["event"] == "snapshot removed"] == [
        "superseded",
        "cleared",
    ]
    assert [line["outcome"] for line in lines if line["event"] == "snapshot lookup"] == [
        "hit",
        "no_candidate",
    ]
    assert lines[0].items() >= TRACE.items()


def test_the_stores_lines_cost_nothing_when_nobody_reads_them():
    """Above debug, no line is written and no session is hashed."""
    hashed: list[str] = []

    def hash_session(session: str) -> str:
        hashed.append(session)
        return HASH_SESSION(session)

    with logging_into(Written(), level="info") as written:
        listener = EventLines(structlog.get_logger("samovar.events"), hash_session=hash_session)
        for transaction in store_life().transactions:
            listener(transaction)
    assert written.getvalue() == ""
    assert hashed == []


def test_no_line_holds_a_session_in_clear():
    """Sessions are told by the same hash as in spans, so that both can be searched for one client."""
    lines = lines_of(*store_life().transactions)
    assert "secret-key" not in str(lines)
    assert {line["session.hash"] for line in lines if "session.hash" in line} == {HASH_SESSION("secret-key")}


def test_a_conversation_on_the_real_scheduler_leaves_an_access_line_a_turn():
    """What the scheduler says of two turns is two access lines: the second one came out of the store."""
    serving = ServingRoom()
    serving.run(make_job([1, 2, 3, 4, 5], boundary=4, id="one", session="secret-key"))
    serving.run(make_job([1, 2, 3, 4, 9, 9], boundary=5, id="two", session="secret-key"))
    answered = [
        RequestEnded("/v1/messages", Outcome.COMPLETED, 200, 1.5, job_ids=(job_id,))
        for job_id in ("one", "two")
    ]
    lines = lines_of(*serving.events, *answered, level="info")
    assert [(line["job_id"], line["cached_tokens"], line["cache"], line.get("miss")) for line in lines] == [
        ("one", 0, "miss", "empty"),
        ("two", 4, "hit", None),
    ]
    assert {line["session.hash"] for line in lines} == {HASH_SESSION("secret-key")}
