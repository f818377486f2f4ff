"""What waits a moment is done once, or told that it is not to be."""

from functools import partial

from app.api.settling import Settling
from tests.support.loops import past_timers


async def test_what_is_put_is_done_after_the_pause() -> None:
    """Not before, and once."""
    settling = Settling(0)
    done: list[str] = []
    settling.put("a", lambda: done.append("done"), lambda: done.append("superseded"))
    before = list(done)
    await past_timers()
    settling.supersede("a")
    await past_timers()

    assert (before, done) == ([], ["done"])


async def test_a_key_that_goes_on_is_told_so_and_others_are_not() -> None:
    """Whether it is said, or another call takes the place."""
    settling = Settling(0)
    done: list[str] = []
    for key in ("said", "twice", "other"):
        settling.put(key, partial(done.append, key), partial(done.append, f"not {key}"))
    settling.supersede("said")
    settling.supersede("unknown")
    settling.put("twice", lambda: done.append("again"), lambda: done.append("not again"))
    await past_timers()

    assert done == ["not said", "not twice", "other", "again"]


async def test_after_its_end_nothing_is_done() -> None:
    """A server that stops prepares no turns."""
    settling = Settling(0)
    done: list[str] = []
    settling.put("a", lambda: done.append("done"), lambda: done.append("superseded"))
    settling.close()
    await past_timers()

    assert done == []
