"""A clock that only moves when told."""


class ManualClock:
    """Monotonic seconds under the test's control; starts at 1000 so that nothing mistakes 0 for a time."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        assert seconds >= 0
        self.now += seconds
