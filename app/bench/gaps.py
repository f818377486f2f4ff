"""How evenly replies flow: alone, and while a long prompt is read. Knows how to ask, and no server."""

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeVar

from app.bench.replies import Connection
from app.bench.tasks import tasks
from app.bench.texts import question
from app.errors import SamovarError

Result = TypeVar("Result")

_SHORT_WORDS = 20
_LONG_TOKENS = 4


@dataclass(frozen=True, slots=True)
class Meeting:
    """What is asked: `streams` replies flow, and a prompt of `long_words` words comes in their midst.

    Each stream has brought `flowing` pieces before. `max_tokens` is of each stream's replies: after one that
    ends, the next is asked for.
    """

    streams: int
    flowing: int
    long_words: int
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Gaps:
    """Seconds between the pieces of replies, which may have several tokens each."""

    p50_seconds: float
    p99_seconds: float
    max_seconds: float
    count: int


@dataclass(frozen=True, slots=True)
class Met:
    """The gaps before the long prompt and until its first token, and how long that took."""

    alone: Gaps
    beside: Gaps
    prefill_seconds: float


@dataclass(slots=True)
class _Stream:
    """When the pieces of each of a stream's replies came, and whether enough have."""

    replies: list[list[float]] = field(default_factory=list)
    flows: asyncio.Event = field(default_factory=asyncio.Event)


async def meet(
    connection: Connection, meeting: Meeting, tags: Iterator[str], *, fields: Mapping[str, Any]
) -> Met:
    """Some streams, and a long prompt in their midst.

    Raises:
        SamovarError: as `Connection.pieces` does, or no reply flowed while the prompt was read.
    """
    streams = [_Stream() for _ in range(meeting.streams)]
    async with tasks(_follow(connection, meeting, tags, stream, fields) for stream in streams) as following:
        await _while_running(following, _all_flow(streams))
        began = connection.clock()
        ended = await _while_running(following, _first_token(connection, meeting, tags, fields))
    alone = [gap for stream in streams for times in stream.replies for gap in _before(times, began)]
    beside = [gap for stream in streams for gap in _within(stream, began, ended)]
    if not beside or not alone:
        raise SamovarError(
            f"no reply of {connection.server.url} lasted from before a long prompt to its first token: "
            "its replies are too short"
        )
    return Met(summed(alone), summed(beside), ended - began)


def summed(gaps: Sequence[float]) -> Gaps:
    """Percentiles by rank: of few values, the 99th is the largest."""
    ordered = sorted(gaps)

    def at(share: float) -> float:
        return ordered[min(int(len(ordered) * share), len(ordered) - 1)]

    return Gaps(at(0.50), at(0.99), ordered[-1], len(ordered))


async def _follow(
    connection: Connection,
    meeting: Meeting,
    tags: Iterator[str],
    stream: _Stream,
    fields: Mapping[str, Any],
) -> None:
    came = 0
    while True:
        times: list[float] = []
        stream.replies.append(times)
        asked = question(next(tags), _SHORT_WORDS)
        async for piece in connection.pieces(asked, max_tokens=meeting.max_tokens, fields=fields):
            if piece.says:
                times.append(piece.at_seconds)
                came += 1
                if came >= meeting.flowing:
                    stream.flows.set()
        if not times:
            raise SamovarError(f"{connection.server.url} replies without a word, so that nothing flows")


async def _all_flow(streams: Sequence[_Stream]) -> None:
    for stream in streams:
        await stream.flows.wait()


async def _first_token(
    connection: Connection, meeting: Meeting, tags: Iterator[str], fields: Mapping[str, Any]
) -> float:
    """Asks the long question; the time of its first piece."""
    asked = question(next(tags), meeting.long_words)
    pieces = connection.pieces(asked, max_tokens=_LONG_TOKENS, fields=fields)
    async with contextlib.aclosing(pieces):
        async for piece in pieces:
            if piece.says:
                return piece.at_seconds
    return connection.clock()


async def _while_running(
    following: Sequence[asyncio.Task[None]], work: Coroutine[Any, Any, Result]
) -> Result:
    """What `work` comes to. A stream never ends by itself: one that does has failed, and so does this."""
    async with tasks([work]) as [working]:
        done, _ = await asyncio.wait([working, *following], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        return await working


def _before(times: Sequence[float], began: float) -> list[float]:
    """The gaps of one reply that ended before the long prompt came."""
    return [later - earlier for earlier, later in pairwise(times) if later <= began]


def _within(stream: _Stream, began: float, ended: float) -> list[float]:
    """All waits within the time, those that it cuts included: a reply that says nothing has one.

    The wait from one reply to the next one's first piece is none: it is a time to first token.
    """
    gaps = []
    last = len(stream.replies) - 1
    for number, times in enumerate(stream.replies):
        # What ran when the prompt came began to wait then; the last reply waits to the end, if it flows.
        cut_before = [began] if times and times[0] < began and (number == last or times[-1] > began) else []
        cut_after = [ended] if times and number == last and times[0] < ended else []
        within = [*cut_before, *(at for at in times if began < at < ended), *cut_after]
        gaps += [later - earlier for earlier, later in pairwise(within)]
    return gaps
