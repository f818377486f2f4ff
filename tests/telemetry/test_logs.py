"""Lines of every logger of the process."""

import logging
from datetime import UTC, datetime, timedelta

import pytest
import structlog
from opentelemetry.trace import format_span_id, format_trace_id, use_span

from app.telemetry.logs import QUIET_LOGGERS
from tests.telemetry.log_capture import Written, logging_into
from tests.telemetry.spans_room import SpansRoom


def test_both_ways_of_logging_make_the_same_kind_of_line():
    """structlog and the standard library write JSON lines with level, logger, service and UTC time."""
    with logging_into(Written(), service_name="my server") as written:
        structlog.get_logger("ours").info("hello", tokens=3)
        logging.getLogger("theirs").warning("hello %s", "there", extra={"tokens": 4})
    ours, theirs = written.lines
    for line in (ours, theirs):
        told = datetime.fromisoformat(line.pop("timestamp"))
        assert abs(datetime.now(UTC) - told) < timedelta(minutes=1)
        assert line.pop("service") == "my server"
    assert ours == {"event": "hello", "level": "info", "logger": "ours", "tokens": 3}
    assert theirs == {"event": "hello there", "level": "warning", "logger": "theirs", "tokens": 4}


@pytest.mark.parametrize(
    ("level", "heard"),
    [
        ("debug", ["debug", "info", "warning", "error"]),
        ("info", ["info", "warning", "error"]),
        ("warning", ["warning", "error"]),
        ("error", ["error"]),
    ],
)
def test_the_level_holds_for_every_logger(level, heard):
    """Nothing below the level is written, whichever way it was logged."""
    with logging_into(Written(), level=level) as written:
        for logger in (structlog.get_logger("ours"), logging.getLogger("theirs")):
            for method in ("debug", "info", "warning", "error"):
                getattr(logger, method)("x")
    assert [line["level"] for line in written.lines] == heard * 2


def test_a_line_names_the_trace_it_was_written_in():
    """Inside a span a line has its ids, unless it states a trace itself; outside there are none."""
    span = SpansRoom().tracer.start_span("request")
    with logging_into(Written()) as written:
        with use_span(span):
            logging.getLogger("theirs").info("inside")
            structlog.get_logger("ours").info("stated", trace_id="ab", span_id="cd")
        logging.getLogger("theirs").info("outside")
    inside, stated, outside = written.lines
    context = span.get_span_context()
    assert inside["trace_id"] == format_trace_id(context.trace_id)
    assert inside["span_id"] == format_span_id(context.span_id)
    assert (stated["trace_id"], stated["span_id"]) == ("ab", "cd")
    assert "trace_id" not in outside


@pytest.mark.parametrize("style", ["json", "console"])
@pytest.mark.parametrize("terminal", [True, False])
def test_an_exception_is_told_without_its_local_variables(style, terminal):
    """A traceback says where it happened; the prompts that were in the frames stay out."""
    with logging_into(Written(terminal=terminal), style=style) as written:
        prompt = "my diary"
        try:
            prompt.index("secret")
        except ValueError:
            logging.getLogger("theirs").exception("failed")
            structlog.get_logger("ours").exception("failed")
    text = written.getvalue()
    assert text.count("ValueError") >= 2
    assert "test_logs.py" in text
    assert "my diary" not in text


def test_one_event_is_one_line_of_json():
    """A message or value with line breaks, or one that JSON has no type for, stays one parsable line."""
    with logging_into(Written()) as written:
        logging.getLogger("theirs").info("two\nlines")
        structlog.get_logger("ours").info("odd", value={1, 2}, text="a\nb")
    assert [line["event"] for line in written.lines] == ["two\nlines", "odd"]


@pytest.mark.parametrize(
    ("style", "terminal", "is_json"),
    [("auto", True, False), ("auto", False, True), ("json", True, True), ("console", False, False)],
)
def test_lines_are_for_people_on_a_terminal_and_json_elsewhere(style, terminal, is_json):
    """`auto` looks at the stream; the other two are as asked."""
    with logging_into(Written(terminal=terminal), style=style) as written:
        structlog.get_logger("ours").info("hello", tokens=3)
    assert written.getvalue().startswith("{") == is_json
    assert "hello" in written.getvalue()


def test_a_file_gets_no_colours():
    """Escape sequences are for terminals."""
    with logging_into(Written(terminal=False), style="console") as written:
        structlog.get_logger("ours").info("hello")
    assert "\x1b[" not in written.getvalue()


def test_configuring_again_replaces_what_was_there():
    """Two configurations do not write every line twice."""
    with logging_into(Written()) as first, logging_into(Written()) as second:
        logging.getLogger("theirs").info("once")
    assert first.getvalue() == ""
    assert len(second.lines) == 1


@pytest.mark.parametrize("name", QUIET_LOGGERS)
def test_the_servers_own_chatter_is_kept_out(name):
    """Granian's and Litestar's loggers are heard from WARNING on, whatever our level."""
    with logging_into(Written(), level="debug") as written:
        logging.getLogger(name).info("chatter")
        logging.getLogger(name).warning("trouble")
    assert [line["event"] for line in written.lines] == ["trouble"]
