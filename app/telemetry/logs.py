"""Sets up logging once for the process: structured lines to one stream, those of stdlib loggers included.

What is written about events is in `log_lines.py`.
"""

import logging
from collections.abc import Mapping
from typing import Literal, TextIO, assert_never

import structlog
from opentelemetry import trace
from structlog.typing import EventDict, Processor, WrappedLogger

Level = Literal["debug", "info", "warning", "error"]
Style = Literal["auto", "json", "console"]

LEVELS: Mapping[Level, int] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}

QUIET_LOGGERS = ("_granian", "granian.access", "litestar")
"""Loggers that are heard from WARNING on: Granian writes an INFO line for each lost send of a gone client."""


def configure_logging(*, level: Level, style: Style, stream: TextIO, service_name: str) -> None:
    """Send every log line of the process to `stream`, from `level` on; replaces what was configured before.

    Args:
        level: the least severe line that is written.
        style: `auto` is for people where `stream` is a terminal, and JSON everywhere else.
        stream: where lines go; it is not closed.
        service_name: the field `service` of each line, the same as `service.name` of spans.
    """

    def add_service(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        event["service"] = service_name
        return event

    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        add_service,
        add_trace,
    ]
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder()],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *_rendering(style, stream),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(LEVELS[level])
    for name in QUIET_LOGGERS:
        logging.getLogger(name).setLevel(max(logging.WARNING, LEVELS[level]))
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.stdlib.LoggerFactory(),
    )


def add_trace(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Name the trace a line belongs to: the one it states itself, else that of the running span."""
    context = trace.get_current_span().get_span_context()
    if context.is_valid and "trace_id" not in event:
        event["trace_id"] = trace.format_trace_id(context.trace_id)
        event["span_id"] = trace.format_span_id(context.span_id)
    return event


def _rendering(style: Style, stream: TextIO) -> list[Processor]:
    match style:
        case "auto":
            return _rendering("console" if stream.isatty() else "json", stream)
        case "json":
            return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        case "console":
            # The default formatter prints the local variables of each frame, and prompts are among them.
            plain = structlog.dev.plain_traceback
            return [structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=plain)]
        case _:
            assert_never(style)
