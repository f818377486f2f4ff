"""Logging configured as in production, into a string, and put back afterwards."""

import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import structlog

from app.telemetry.logs import QUIET_LOGGERS, Level, Style, configure_logging


class Written(io.StringIO):
    """What was written; `terminal` makes it look like one."""

    def __init__(self, *, terminal: bool = False) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Each line as the JSON object it is."""
        return [json.loads(line) for line in self.getvalue().splitlines()]


@contextmanager
def logging_into(
    stream: Written, *, level: Level = "debug", style: Style = "json", service_name: str = "samovar"
) -> Iterator[Written]:
    """Configure logging for the block only: the process has one configuration, and pytest needs it back."""
    root = logging.getLogger()
    handlers, level_before = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in QUIET_LOGGERS}
    configure_logging(level=level, style=style, stream=stream, service_name=service_name)
    try:
        yield stream
    finally:
        root.handlers[:] = handlers
        root.setLevel(level_before)
        for name, its_level in levels.items():
            logging.getLogger(name).setLevel(its_level)
        structlog.reset_defaults()
