"""Laws of a job's life inside its request."""

import asyncio
import threading

import pytest

from app.api.generation import MOST_CALL_CHARACTERS, running
from app.api.ports import ReplyPart, ToolCall, ToolUse
from app.api.reply import Reply
from app.api.stream import LoopSink
from app.errors import RequestError
from app.vocabulary import FinishReason
from tests.support.clock import ManualClock
from tests.support.jobs import make_job
from tests.support.scripted_engine import (
    CALL,
    END_OF_TURN,
    WAIT_SECONDS,
    CharacterModel,
    CharacterText,
    ScriptedEngine,
)

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


class SlowCall(CharacterText):
    """Reads a call for as long as nobody on the event loop lets it end."""

    def __init__(self) -> None:
        super().__init__((), tools=ToolUse(tools=({},)))
        self.may_end = threading.Event()

    def finish(self, *, cut: bool) -> list[ReplyPart]:
        assert self.may_end.wait(WAIT_SECONDS), "the event loop waits for the call to be read"
        return super().finish(cut=cut)


async def test_a_long_call_is_read_off_the_event_loop() -> None:
    """Whoever writes a text that takes a parser seconds holds up nobody else."""
    room = Room()
    text = SlowCall()
    room.reply = Reply(text)
    room.running = running(room.engine, room.sink, room.job, room.reply, clock=room.clock, seconds=LONG)
    with room.running as generation:
        for character in f"{CALL}now {' ' * MOST_CALL_CHARACTERS}":
            await room.engine.say(room.job, character)
            await generation.advance(LONG)
        await room.engine.say(room.job, END_OF_TURN, finish=FinishReason.STOP)
        reading = asyncio.ensure_future(generation.advance(LONG))
        asyncio.get_running_loop().call_later(0.01, text.may_end.set)
        parts = await reading

    assert [part.name for part in parts if isinstance(part, ToolCall)] == ["now"]


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
