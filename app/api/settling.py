"""What is done for a session a moment after its reply, unless the session has gone on by then."""

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass

SETTLE_SECONDS = 0.05
"""Longer than a program that answers at once needs to do so, shorter than people and most tools take."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    timer: asyncio.TimerHandle
    superseded: Callable[[], object]


class Settling:
    """One call at a time for each key, made after a pause. On the event loop's thread alone.

    Args:
        seconds: the pause.
    """

    def __init__(self, seconds: float = SETTLE_SECONDS) -> None:
        self._seconds = seconds
        self._waiting: dict[Hashable, _Waiting] = {}

    def put(self, key: Hashable, call: Callable[[], object], superseded: Callable[[], object]) -> None:
        """Make `call` after the pause, in place of the key's last one; `superseded` if that is not to be."""
        self.supersede(key)
        timer = asyncio.get_running_loop().call_later(self._seconds, self._make, key, call)
        self._waiting[key] = _Waiting(timer, superseded)

    def supersede(self, key: Hashable) -> None:
        """The key has gone on: what waits for it is not done any more."""
        if (waiting := self._waiting.pop(key, None)) is not None:
            waiting.timer.cancel()
            waiting.superseded()

    def close(self) -> None:
        """Nothing that waits is done; nobody is told."""
        for waiting in self._waiting.values():
            waiting.timer.cancel()
        self._waiting.clear()

    def _make(self, key: Hashable, call: Callable[[], object]) -> None:
        del self._waiting[key]
        call()
