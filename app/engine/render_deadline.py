"""Ends a chat template that does not end by itself. Knows no model and no message."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from app.clock import Clock

RENDER_SECONDS = 5.0
"""Of the thread's own computing time, so that a busy machine ends nothing. Templates take milliseconds."""

LINES_A_LOOK = 128
"""Asking for a thread's time is a system call, which takes longer than most lines."""

_COMPILED_TEMPLATE = "<template>"
"""What Jinja calls the file of a template that came as text."""


class EndlessTemplateError(Exception):
    """A template took longer than it may."""


@contextmanager
def render_deadline(seconds: float = RENDER_SECONDS, *, clock: Clock = time.thread_time) -> Iterator[None]:
    """Raise in the midst of a template that computes for longer, whatever loop it is in.

    Jinja's sandbox bounds one range, and not two of them within each other. A thread cannot be ended from
    outside, so this one looks at the clock at each line of a template, and at no other code's.

    Raises:
        EndlessTemplateError: the time is over.
    """
    deadline = clock() + seconds
    lines = 0

    def at_line(_frame: FrameType, _event: str, _argument: Any) -> Any:
        nonlocal lines
        lines += 1
        if lines % LINES_A_LOOK == 0 and clock() > deadline:
            raise EndlessTemplateError(f"it was not done after {seconds:g} seconds")
        return at_line

    def at_call(frame: FrameType, _event: str, _argument: Any) -> Any:
        return at_line if frame.f_code.co_filename == _COMPILED_TEMPLATE else None

    before = sys.gettrace()
    sys.settrace(at_call)
    try:
        yield
    finally:
        sys.settrace(before)
