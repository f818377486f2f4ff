"""Runs one job for one request: submit, follow, end it however the request ends. Knows no wire format."""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence

from app.api.ports import Engine, ReplyPart
from app.api.reply import Reply, merged
from app.api.stream import Channel, LoopSink
from app.clock import Clock
from app.scheduler.job import Delta, Failed, Job

MOST_CALL_CHARACTERS = 1024
"""How long a tool call may be that is read on the event loop: less than 20 ms for the slowest of parsers."""


class Generation:
    """A submitted job and its growing reply."""

    def __init__(
        self, engine: Engine, channel: Channel, job: Job, reply: Reply, *, clock: Clock, seconds: float
    ) -> None:
        self._engine = engine
        self._channel = channel
        self._job = job
        self._clock = clock
        self._deadline = job.submitted + seconds
        self._seconds = seconds
        self.reply = reply

    async def advance(self, timeout_seconds: float) -> Sequence[ReplyPart]:
        """What is new; nothing if none came within the time. A reply that takes too long is failed."""
        remaining = self._deadline - self._clock()
        deltas = await self._channel.take(min(timeout_seconds, max(remaining, 0)))
        if not deltas and self._clock() >= self._deadline:
            deltas = [Failed(f"The request took longer than the {self._seconds:g} seconds allowed.", 504)]
        parts = await self._read(deltas)
        if self.reply.stopped_by_text:
            self._engine.finish(self._job.id)
        return parts

    async def _read(self, deltas: Sequence[Delta]) -> Sequence[ReplyPart]:
        """The reply's new parts. A long call is read off the event loop, for all others' sake.

        Its parser goes over whatever the model wrote, and there are texts that take it seconds.
        """
        parts: list[ReplyPart] = []
        for position, delta in enumerate(deltas):
            if self.reply.call_characters > MOST_CALL_CHARACTERS:
                parts += await asyncio.to_thread(self.reply.read, deltas[position:])
                break
            parts += self.reply.read([delta])
        return merged(parts)

    async def abandoned(self) -> None:
        """Return when nobody waits any longer for this request to say its last word."""
        await self._channel.abandoned()

    async def complete(self) -> Reply:
        """The reply, once it has ended."""
        while not self.reply.ended:
            await self.advance(self._seconds)
        return self.reply


@contextlib.contextmanager
def running(
    engine: Engine, sink: LoopSink, job: Job, reply: Reply, *, clock: Clock, seconds: float
) -> Iterator[Generation]:
    """Submit `job` for as long as the block lasts; left before the reply's end, the job is cancelled.

    Args:
        engine: takes the job.
        sink: what the engine delivers to.
        job: what is to be generated.
        reply: reads the job's deltas.
        clock: the scale `job.submitted` is on.
        seconds: the longest the reply may take, from `job.submitted` on.

    Raises:
        RequestError: the engine refuses the job.
    """
    with sink.open(job.id, on_lag=engine.cancel) as channel:
        engine.submit(job)
        try:
            yield Generation(engine, channel, job, reply, clock=clock, seconds=seconds)
        finally:
            # `failure` covers the deadline and a forced end, where the engine still has the job.
            if reply.finish is None:
                engine.cancel(job.id)
