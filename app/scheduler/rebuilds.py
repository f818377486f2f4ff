"""Whether the engine had to be rebuilt too often of late. Knows no engine."""

from collections import deque

from app.clock import Clock


class Rebuilds:
    """The rebuilds of the last while. Told on the engine thread, asked from any.

    Args:
        most: one fewer is an accident, so many within the window are a fault that stays; None never is.
        window_seconds: how long a rebuild counts.
        clock: monotonic seconds.
    """

    def __init__(self, *, most: int | None, window_seconds: float, clock: Clock) -> None:
        self._most = most
        self._window_seconds = window_seconds
        self._clock = clock
        # Only the newest decide; replaced as a whole by `append`, so that a reader needs no lock.
        self._times: deque[float] = deque(maxlen=most or 1)

    def note(self) -> None:
        """The engine was rebuilt now."""
        self._times.append(self._clock())

    @property
    def complaint(self) -> str:
        """Why the engine is not to be relied on now; empty where it is."""
        times = tuple(self._times)
        if self._most is None or len(times) < self._most:
            return ""
        if self._clock() - times[0] >= self._window_seconds:
            return ""
        return f"the engine failed {self._most} times within {self._window_seconds:g} seconds; see the log"
