"""When failed steps are too many."""

from app.scheduler.rebuilds import Rebuilds
from tests.support.clock import ManualClock


def test_so_many_within_the_window_are_a_complaint_that_passes():
    """One fewer is none; once the first of them is a window ago, all is well again."""
    clock = ManualClock()
    rebuilds = Rebuilds(most=3, window_seconds=60, clock=clock)
    said = []
    for _ in range(3):
        said.append(rebuilds.complaint)
        rebuilds.note()
        clock.advance(10)
    assert said == [""] * 3
    assert rebuilds.complaint == "the engine failed 3 times within 60 seconds; see the log"
    clock.advance(29)
    assert rebuilds.complaint
    clock.advance(1)
    assert rebuilds.complaint == ""


def test_failures_far_apart_are_none():
    """Only those of one window count together."""
    clock = ManualClock()
    rebuilds = Rebuilds(most=2, window_seconds=60, clock=clock)
    for _ in range(20):
        rebuilds.note()
        assert rebuilds.complaint == ""
        clock.advance(60)


def test_without_a_limit_there_is_never_a_complaint():
    """Whatever happens."""
    rebuilds = Rebuilds(most=None, window_seconds=60, clock=ManualClock())
    for _ in range(100):
        rebuilds.note()
    assert rebuilds.complaint == ""
