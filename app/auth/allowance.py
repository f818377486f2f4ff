"""How often, and how many at a time, one key may ask. It knows no requests, only when they come and go."""

import math

from app.clock import Clock

_MINUTE_SECONDS = 60.0


class Allowance:
    """A token bucket that holds a minute's requests, and a count of those under way. Used by one thread.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._spent = 0.0
        self._at = clock()
        self.running = 0

    def wait_seconds(self, per_minute: int | None) -> int:
        """Spend one request, or say how many whole seconds there are until one can be spent; 0: it was.

        Args:
            per_minute: what the key may spend; it may differ from call to call.
        """
        if per_minute is None:
            return 0
        now = self._clock()
        rate = per_minute / _MINUTE_SECONDS
        self._spent = max(self._spent - (now - self._at) * rate, 0.0)
        self._at = now
        if self._spent + 1 <= per_minute:
            self._spent += 1
            return 0
        return max(math.ceil((self._spent + 1 - per_minute) / rate), 1)
