"""Laws of a job's life inside its request."""

import asyncio

import pytest

from app.api.generation import running
from app.api.reply import Reply
from app.api.stream import LoopSink
from app.errors import RequestError
from app.events import FinishReason
from tests.support.clock import ManualClock
from tests.support.jobs import make_job
from tests.support.scripted_engine import CharacterModel, CharacterText, ScriptedEngine

LONG = 10.0


class Room:
    """An engine, a job for it and a clock."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.sink = LoopSink(asyncio.get_running_loop(), max_lag_deltas=3)
        self.engine = ScriptedEngine(self.sink, CharacterModel())
        self.job = make_job([1, 2, 3], submitted=self.clock())
        self.reply = Reply(CharacterText(("STOP",)))
        self.running = running(self.engine, self.sink, self.job, self.reply, clock=self.clock, seconds=LONG)


async def test_complete_reply_is_not_cancelled() -> None:
    """A job that ended by itself needs no word from the request."""
    room = Room()
    with room.running as generation:
        await room.engine.say(room.job, "ab", finish=FinishReason.STOP)
        reply = await generation.complete()

    assert reply.content == "ab"
    assert room.engine.cancelled == set()
    assert room.engine.finished == []


async def test_stop_string_finishes_the_job() -> None:
    """The engine hears that the text is complete, and that is not a cancellation."""
    room = Room()
    with room.running as generation:
        await room.engine.say(room.job, "a")
        await generation.advance(LONG)
        await room.engine.say(room.job, "STO")
        await generation.advance(LONG)
        await room.engine.say(room.job, "P!")
        await generation.advance(LONG)

    assert room.reply.content == "a"
    assert room.engine.finished == [room.job.id]
    assert room.engine.cancelled == set()


@pytest.mark.parametrize("leave", [asyncio.CancelledError, ConnectionError])
async def test_request_that_leaves_early_cancels_its_job(leave: type[BaseException]) -> None:
    """However a request ends before its reply does, the job is cancelled."""
    room = Room()
    await room.engine.say(room.job, "ab")
    with pytest.raises(leave), room.running:
        raise leave

    assert room.engine.cancelled == {room.job.id}


async def test_refused_job_leaves_nothing_open() -> None:
    """A job the engine does not take is neither cancelled nor waited for; deltas under its id are dropped."""
    room = Room()
    room.engine.refusal = RequestError("full", status=429)

    with pytest.raises(RequestError, match="full"), room.running:
        pass

    assert room.engine.cancelled == set()
    room.sink.end_all("nobody is left to hear this")


async def test_reply_that_takes_too_long_is_failed_and_cancelled() -> None:
    """Past its deadline a silent request fails with 504, and its job is cancelled."""
    room = Room()
    with room.running as generation:
        assert list(await generation.advance(0.001)) == []
        assert not room.reply.ended
        room.clock.advance(LONG)
        await generation.advance(LONG)

    assert room.reply.failure is not None
    assert room.reply.failure.status == 504
    assert room.engine.cancelled == {room.job.id}


async def test_reader_that_lags_has_its_job_cancelled() -> None:
    """More unread deltas than allowed cancel the job at once, while the request is still blocked."""
    room = Room()
    with room.running:
        await room.engine.say(room.job, "abcde")
        await room.engine.until_cancelled(room.job)
