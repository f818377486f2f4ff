"""Laws of a timer that is moved far more often than it rings."""

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from app.api.alarm import Alarm

if TYPE_CHECKING:
    import asyncio


class Timer:
    """One call that the loop was asked for."""

    def __init__(self, due: float, call: Callable[[], None]) -> None:
        self.due, self.call, self.cancelled = due, call, False

    def cancel(self) -> None:
        self.cancelled = True


class Loop:
    """A loop's clock and timers, moved by hand."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[Timer] = []

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        timer = Timer(self.now + seconds, call)
        self.timers.append(timer)
        return timer

    def advance(self, seconds: float) -> None:
        """Let time pass, and call what is due on the way."""
        end = self.now + seconds
        while due := [timer for timer in self.pending if timer.due <= end]:
            timer = min(due, key=lambda each: each.due)
            self.now = max(self.now, timer.due)
            self.timers.remove(timer)
            timer.call()
        self.now = end

    @property
    def pending(self) -> list[Timer]:
        return [timer for timer in self.timers if not timer.cancelled]


def made() -> tuple[Loop, Alarm, list[float]]:
    loop, rung = Loop(), list[float]()
    return loop, Alarm(cast("asyncio.AbstractEventLoop", loop), lambda: rung.append(loop.now)), rung


def test_it_rings_once_at_its_time() -> None:
    """Not before, and not again."""
    loop, alarm, rung = made()
    alarm.set(5)
    loop.advance(4.9)
    assert rung == []
    loop.advance(20)

    assert rung == [105]
    assert loop.pending == []


def test_moving_it_away_takes_no_timer() -> None:
    """A thousand moves use the one timer, and it rings as long after the last as that asked for."""
    loop, alarm, rung = made()
    for _ in range(1000):
        alarm.set(5)
        loop.advance(0.001)
    assert len(loop.timers) == 1
    loop.advance(10)

    assert [round(when, 3) for when in rung] == [105.999]


def test_moving_it_nearer_rings_at_the_nearer_time() -> None:
    """The timer that was set for later does not hold it back."""
    loop, alarm, rung = made()
    alarm.set(50)
    alarm.set(5)
    loop.advance(100)

    assert rung == [105]


def test_unset_it_does_not_ring_until_it_is_set_anew() -> None:
    """Neither at the old time nor ever, and the next time counts as the first did."""
    loop, alarm, rung = made()
    alarm.set(5)
    alarm.unset()
    loop.advance(10)
    assert rung == []
    alarm.set(5)
    loop.advance(10)

    assert rung == [115]


def test_closed_it_leaves_nothing_in_the_loop() -> None:
    """What it belonged to can be freed at once."""
    loop, alarm, rung = made()
    alarm.set(5)
    alarm.close()

    assert loop.pending == []
    loop.advance(10)
    assert rung == []
