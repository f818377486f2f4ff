"""Ends a chat template that does not end by itself. Knows no model and no message."""

import ctypes
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

RENDER_SECONDS = 5.0
"""Templates take milliseconds, also on a busy machine."""


class EndlessTemplateError(Exception):
    """A template took longer than it may."""


class _InterruptionError(Exception):
    """Raised within a thread by another one."""


def render_within(seconds: float, render: Callable[[], T]) -> T:
    """What `render` returns, unless it computes for longer, in whatever loop.

    Jinja's sandbox bounds one range, and not two of them within each other. To look at the clock at each line
    of a template costs twice the time of rendering it (measured), so that it is interrupted from outside.

    Raises:
        EndlessTemplateError: the time is over.
    """
    watch = _Watch(seconds)
    try:
        try:
            watch.start()
            return render()
        finally:
            watch.end()
    except _InterruptionError as interruption:
        raise EndlessTemplateError(f"it was not done after {seconds:g} seconds") from interruption


class _Watch:
    """Interrupts the thread that made it, once, if that has not said in time that it is done."""

    def __init__(self, seconds: float) -> None:
        self._thread = threading.get_ident()
        self._lock = threading.Lock()
        self._over = False
        self._timer = threading.Timer(seconds, self._interrupt)
        # Never waited for at the process's end.
        self._timer.daemon = True

    def start(self) -> None:
        self._timer.start()

    def end(self) -> None:
        """Nothing is raised after this, wherever the interruption was on its way."""
        self._timer.cancel()
        with self._lock:
            self._over = True
            _raise_in(self._thread, None)

    def _interrupt(self) -> None:
        with self._lock:
            if not self._over:
                _raise_in(self._thread, _InterruptionError)


def _raise_in(thread: int, error: type[Exception] | None) -> None:
    """Have the thread raise `error` at its next call or jump back; None takes back what it was to raise."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), None if error is None else ctypes.py_object(error)
    )
