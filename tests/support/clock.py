"""A clock that moves only when it is told to."""


class ManualClock:
    """Stands in for `app.clock.Clock`; starts at `now` seconds."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass; time never goes back."""
        assert seconds >= 0
        self.now += seconds
