"""A timer that is moved far more often than it rings, as a deadline is at each token. Knows no requests."""

import asyncio
from collections.abc import Callable

RESOLUTION_SECONDS = 0.001
"""How early a loop may call back: its clock counts milliseconds."""


class Alarm:
    """Rings once its time has come. To set it later than it was takes no timer of the loop's.

    Lives on the loop's thread alone; `close` it, or the loop keeps it until its time.

    Args:
        loop: whose clock and timers it uses.
        ring: called when it rings; what it raises goes to the loop's handler of exceptions.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        self._loop = loop
        self._ring = ring
        self._due: float | None = None
        self._armed_for = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def set(self, seconds: float) -> None:
        """Ring in so many seconds from now, and no more when it was to ring before."""
        self._due = due = self._loop.time() + seconds
        if self._timer is None or due < self._armed_for:
            self._arm(seconds)

    def unset(self) -> None:
        """Do not ring. The timer stays where it is, for the next `set`."""
        self._due = None

    def close(self) -> None:
        """Do not ring, and leave nothing in the loop."""
        self._due = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._armed_for = self._loop.time() + seconds
        self._timer = self._loop.call_later(seconds, self._come)

    def _come(self) -> None:
        self._timer = None
        if self._due is None:
            return
        left = self._due - self._loop.time()
        if left > RESOLUTION_SECONDS:
            self._arm(left)
            return
        self._due = None
        self._ring()
