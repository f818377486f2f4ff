"""How fast a server is with so many clients at a time. Knows how to ask, and no server."""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from app.bench.replies import Connection, Reply
from app.bench.tasks import tasks
from app.bench.texts import question


@dataclass(frozen=True, slots=True)
class Load:
    """What is asked in a round: each of `clients` asks `requests` questions of `words` words, one by one."""

    clients: int
    requests: int
    words: int
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Round:
    """Seconds to each first token, tokens of all replies, and those a second."""

    first_token_seconds: tuple[float, ...]
    tokens: int
    tokens_per_second: float


async def round_of(
    connection: Connection, load: Load, tags: Iterator[str], *, fields: Mapping[str, Any]
) -> Round:
    """One round; each question has a tag of its own. Raises as `Connection.pieces` does."""

    async def talk() -> list[Reply]:
        return [
            await connection.ask(question(next(tags), load.words), max_tokens=load.max_tokens, fields=fields)
            for _ in range(load.requests)
        ]

    began = connection.clock()
    async with tasks(talk() for _ in range(load.clients)) as talking:
        said = await asyncio.gather(*talking)
    seconds = connection.clock() - began
    replies = [reply for each in said for reply in each]
    tokens = sum(reply.tokens for reply in replies)
    return Round(tuple(reply.first_token_seconds for reply in replies), tokens, tokens / seconds)
