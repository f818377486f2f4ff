"""Follows the generations of one request together, be it one or several. Knows no wire format."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from app.api.generation import Generation
from app.api.ports import ReplyPart
from app.api.reply import Reply
from app.scheduler.job import Failed, Started


@dataclass(frozen=True, slots=True)
class News:
    """What is new of one reply: the `index`-th of its request."""

    index: int
    parts: Sequence[ReplyPart]


class Replies:
    """The replies of one request, as they grow side by side.

    Args:
        generations: one for each, submitted already.
        seconds: longer than any of them may take.
    """

    def __init__(self, generations: Sequence[Generation], *, seconds: float) -> None:
        self.all: Sequence[Reply] = [generation.reply for generation in generations]
        """The replies, in order."""
        self._generations = generations
        self._seconds = seconds
        self._waiting: dict[asyncio.Task[Sequence[ReplyPart]], int] = {}

    @property
    def failure(self) -> Failed | None:
        """Why the first of them that failed did; the request has failed then."""
        return next((reply.failure for reply in self.all if reply.failure is not None), None)

    @property
    def ended(self) -> bool:
        """Whether nothing more can come, or nobody may be told of it."""
        going = False
        for reply in self.all:
            if reply.failure is not None:
                return True
            going = going or reply.finish is None
        return not going

    async def advance(self, timeout_seconds: float) -> Sequence[News]:
        """What is new of each that has news, once one has; nothing if none has within the time."""
        if len(self._generations) == 1:
            return [News(0, await self._generations[0].advance(timeout_seconds))]
        followed = set(self._waiting.values())
        for index, generation in enumerate(self._generations):
            if index not in followed and not generation.reply.ended:
                self._waiting[asyncio.ensure_future(generation.advance(self._seconds))] = index
        done, _ = await asyncio.wait(
            self._waiting, timeout=timeout_seconds, return_when=asyncio.FIRST_COMPLETED
        )
        news = [News(self._waiting.pop(task), task.result()) for task in done]
        return sorted(news, key=lambda each: each.index)

    async def complete(self) -> None:
        """Return once all have ended, or one has failed."""
        while not self.ended:
            await self.advance(self._seconds)

    def stop(self) -> None:
        """Follow them no more."""
        for task in self._waiting:
            task.cancel()


def first_start(replies: Sequence[Reply]) -> Started | None:
    """How the first of them that left the queue started."""
    return next((reply.started for reply in replies if reply.started is not None), None)
