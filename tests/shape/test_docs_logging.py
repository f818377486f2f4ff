"""docs/logging.md and the lines that are written say the same."""

import itertools
import random
from collections import defaultdict
from typing import Any

import structlog
from opentelemetry.trace import use_span

from app.events import (
    AdminCalled,
    CaptureDeclined,
    EngineRebuilt,
    Event,
    PayloadRestored,
    PayloadSealed,
    RequestEnded,
    TraceRef,
    Transaction,
    WarmupEnded,
)
from app.telemetry.log_lines import EventLines
from app.vocabulary import FinishReason, Miss, Origin, Outcome, Warmup
from tests.shape.documents import code, tables_of
from tests.telemetry.generations import generation
from tests.telemetry.log_capture import Written, logging_into
from tests.telemetry.spans_room import HASH_SESSION, SpansRoom
from tests.telemetry.store_life import busy_limits, random_life

PAGE = "logging.md"
CAUSE = TraceRef(0xABC, 0xDEF, sampled=True)


def store_events() -> list[Event]:
    """What a store says in a life in which everything happens to it."""
    heard: list[Event] = []
    room = SpansRoom(busy_limits(), also=[("heard", heard.append)])
    random_life(room, random.Random(0), 2500)
    return heard


def other_events() -> list[Event]:
    """What everything else says, a request with every field among it."""
    return [
        generation(cause=CAUSE, session="s", miss=Miss.EMPTY, error="broken", reason=FinishReason.ERROR),
        RequestEnded("/v1/messages", Outcome.FAILED, 500, 1.0, ("job",), "id", "ann"),
        EngineRebuilt("RuntimeError", 1),
        PayloadSealed(Origin.SYSTEM, CAUSE, 1.0, 1.5, tokens=5, nbytes=64),
        PayloadRestored(CAUSE, 1.0, 1.25, tokens=5, nbytes=64, error="wrong shape"),
        CaptureDeclined("history_rewritten", CAUSE),
        AdminCalled("DELETE /v1/cache/sessions/{session}", "ann", None, "s", 200, "::1"),
        WarmupEnded(Warmup.RUN, CAUSE, 1.0, 2.0, tokens=9, computed_tokens=5),
    ]


def written() -> dict[str, list[dict[str, Any]]]:
    """All lines, by event."""
    lines: dict[str, list[dict[str, Any]]] = defaultdict(list)
    with logging_into(Written()) as stream:
        listener = EventLines(structlog.get_logger("samovar"), hash_session=HASH_SESSION)
        with use_span(SpansRoom().tracer.start_span("request")):
            for event in (*store_events(), *other_events()):
                if not isinstance(event, Transaction) or event.events:
                    listener(event)
    for line in stream.lines:
        lines[line["event"]].append(line)
    return lines


def test_every_line_and_field_is_documented_and_no_other() -> None:
    """Events, their levels and their fields are those of the page, in both directions."""
    tables = tables_of(PAGE)
    frame, *of_requests = fields_by_table()
    documented = {"request": {field for fields in of_requests for field in fields}}
    documented |= {code(event)[0]: set(code(fields)) for event, _, fields in tables["Event"]}
    lines = written()
    found = {event: {name for line in of for name in line} - frame for event, of in lines.items()}
    assert found == documented
    levels = {code(event)[0]: level for event, level, _ in tables["Event"]} | {"request": "warning"}
    assert {event: {line["level"] for line in of} for event, of in lines.items()} == {
        event: {level} for event, level in levels.items()
    }


def fields_by_table() -> list[set[str]]:
    """The tables of fields, in order: what every line has, then the two of the line of a request."""
    rows = tables_of(PAGE)["Field"]
    names = [name for first, _ in rows for name in code(first)]
    starts = [0, names.index("route"), names.index("job_id"), len(names)]
    return [set(names[start:end]) for start, end in itertools.pairwise(starts)]


def test_every_line_has_the_fields_that_every_line_has() -> None:
    """Time, level, event, logger, service and, in a trace, its ids."""
    (frame, *_) = fields_by_table()
    for lines in written().values():
        for line in lines:
            assert frame <= line.keys()
