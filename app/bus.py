"""Fans events out to listeners. A listener that raises is counted and logged, and never breaks a request."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence

from app.events import Event

Listener = Callable[[Event], None]
Emit = Callable[[Event], None]

log = logging.getLogger(__name__)


def discard(_event: Event) -> None:
    """The listener that listens to nothing, so that no caller asks whether anybody does."""


class Bus:
    """A fixed, named set of listeners, called in order on the thread that publishes.

    Args:
        listeners: name → listener. The name is what a failure is counted and logged under.
    """

    def __init__(self, listeners: Sequence[tuple[str, Listener]] = ()) -> None:
        self._listeners = tuple(listeners)
        self._failures = {name: 0 for name, _ in self._listeners}
        self._lock = threading.Lock()

    def publish(self, event: Event) -> None:
        """Hand `event` to every listener; never raises."""
        for name, listener in self._listeners:
            try:
                listener(event)
            except Exception:
                with self._lock:
                    self._failures[name] += 1
                    first = self._failures[name] == 1
                # A broken listener fails on every event: one traceback is news, a thousand are noise.
                if first:
                    log.exception("listener %s failed on %s", name, type(event).__name__)

    def failures(self) -> Mapping[str, int]:
        """How often each listener raised, by name."""
        with self._lock:
            return dict(self._failures)
