"""Carries deltas from the engine thread to the requests that wait for them. Knows no HTTP and no text."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence

from app.api.alarm import Alarm
from app.scheduler.job import Delta, Failed, JobId, Prefilled

MAX_LAG_DELTAS = 4096
"""Tokens a request may leave unread. A reader on the same loop empties its channel in one go, so that
only a client that stopped reading its socket comes this far."""


LAST_WORD_SECONDS = 1.0
"""How long a request may take to say its last word after it was ended from here. One that takes longer is
stuck writing to a client that does not read."""


class Channel:
    """One job's deltas, in order. Made by `LoopSink.open`; lives on the event loop's thread alone."""

    def __init__(self, job_id: JobId, *, max_lag_deltas: int, on_lag: Callable[[JobId], None]) -> None:
        self._job_id = job_id
        self._max_lag_deltas = max_lag_deltas
        self._on_lag = on_lag
        self._unread: list[Delta] = []
        self._ended = False
        self._loop = asyncio.get_running_loop()
        self._reader: asyncio.Future[None] | None = None
        self._impatience = Alarm(self._loop, self._wake)
        self._abandoned = asyncio.Event()

    def put(self, delta: Delta) -> None:
        """Add a delta, or end the job if its reader is too far behind. Ignored once the channel has ended."""
        # Prefill progress says nothing to a client, and a reader woken for nothing costs every step.
        if self._ended or isinstance(delta, Prefilled):
            return
        if len(self._unread) >= self._max_lag_deltas:
            self.end(Failed("The client reads too slowly; the request was cancelled.", 503))
            self._on_lag(self._job_id)
            return
        self._unread.append(delta)
        self._wake()

    def end(self, failure: Failed) -> None:
        """Let `failure` be the last word, in place of what is unread. Ignored once the channel has ended."""
        if not self._ended:
            self._ended = True
            self._unread = [failure]
            self._wake()
            self._loop.call_later(LAST_WORD_SECONDS, self._abandoned.set)

    async def abandoned(self) -> None:
        """Return once the time for a last word is over; never where the job ended by itself."""
        await self._abandoned.wait()

    async def take(self, timeout_seconds: float) -> Sequence[Delta]:
        """Everything unread, waiting for the first of it; empty if nothing came within the time.

        One reader at a time.
        """
        if not self._unread:
            self._reader = self._loop.create_future()
            self._impatience.set(timeout_seconds)
            await self._reader
        unread, self._unread = self._unread, []
        return unread

    def close(self) -> None:
        """Leave nothing in the loop; nobody reads any more."""
        self._impatience.close()

    def _wake(self) -> None:
        # No `asyncio.Event` and no `asyncio.timeout`: each token would pay for both.
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)


class LoopSink:
    """The scheduler's DeltaSink: one wake-up of the event loop a step, however many rows took part.

    Args:
        loop: the loop that all requests live on.
        max_lag_deltas: how many deltas a request may leave unread before it is cancelled.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, max_lag_deltas: int = MAX_LAG_DELTAS) -> None:
        self._loop = loop
        self._max_lag_deltas = max_lag_deltas
        self._channels: dict[JobId, Channel] = {}

    def __call__(self, deltas: Sequence[tuple[JobId, Delta]]) -> None:
        """Hand a step's deltas to the loop. Called on the engine thread; neither blocks nor raises."""
        # The engine may outlive the loop by a step at shutdown; nobody is left to be told then.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._deliver, tuple(deltas))

    @contextlib.contextmanager
    def open(self, job_id: JobId, *, on_lag: Callable[[JobId], None]) -> Iterator[Channel]:
        """The channel of a job about to be submitted; what comes after the block is dropped."""
        channel = Channel(job_id, max_lag_deltas=self._max_lag_deltas, on_lag=on_lag)
        self._channels[job_id] = channel
        try:
            yield channel
        finally:
            channel.close()
            del self._channels[job_id]

    def end_all(self, message: str) -> None:
        """End every open request with a 503 that says `message`; their handlers cancel the jobs."""
        for channel in tuple(self._channels.values()):
            channel.end(Failed(message, 503))

    def _deliver(self, deltas: Sequence[tuple[JobId, Delta]]) -> None:
        for job_id, delta in deltas:
            channel = self._channels.get(job_id)
            if channel is not None:
                channel.put(delta)


class OpenRequests:
    """How many inference requests are being answered right now. Lives on the event loop's thread alone."""

    def __init__(self) -> None:
        self._open = 0
        self._none_left = asyncio.Event()
        self._none_left.set()

    @property
    def count(self) -> int:
        """Requests between their first and their last byte."""
        return self._open

    @contextlib.contextmanager
    def one(self) -> Iterator[None]:
        """Count one request for as long as the block lasts."""
        self._open += 1
        self._none_left.clear()
        try:
            yield
        finally:
            self._open -= 1
            if self._open == 0:
                self._none_left.set()

    async def none_left(self) -> None:
        """Return once no request is open."""
        await self._none_left.wait()
