"""All that is measured of one server, and how it is summed up. Knows how to ask, and no terminal."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from app.bench.gaps import Gaps, Meeting, Met, meet
from app.bench.machine import spread
from app.bench.replies import Connection, Server, connected
from app.bench.speed import Load, Round, round_of
from app.bench.talk import Turn, talk
from app.bench.texts import follow_ups, question
from app.clock import Clock

Say = Callable[[str], None]
"""Told what is being done, as a person reads it."""

LONG_WORDS = 2_000
"""Of the prompt that comes in the midst of replies, where messages have 100 words."""

_STREAMS = 2
_REQUESTS = 2
_STREAM_TOKENS = 2_000


@dataclass(frozen=True, slots=True)
class Plan:
    """What is asked: `words` of each message, `max_tokens` of each reply, everything `rounds` times.

    `clients` are the numbers of clients at a time; a stream has brought `flowing` pieces before a prompt of
    `long_words` comes.
    """

    clients: tuple[int, ...] = (1, 4, 8, 32)
    turns: int = 10
    words: int = 100
    max_tokens: int = 64
    rounds: int = 3
    flowing: int = 32
    long_words: int = LONG_WORDS


QUICK = Plan(clients=(1, 4), turns=3, max_tokens=16, rounds=1, flowing=8, long_words=LONG_WORDS // 4)
"""Shows in a minute that all is well; its numbers say little."""


@dataclass(frozen=True, slots=True)
class Found:
    """Every single measurement: conversations, rounds by number of clients, and prompts among streams."""

    talks: Sequence[Sequence[Turn]]
    rounds: Mapping[int, Sequence[Round]]
    meetings: Sequence[Met]


async def measure(server: Server, plan: Plan, tags: Iterator[str], *, clock: Clock, say: Say) -> Found:
    """Everything, in rounds. `tags` are of no earlier measurement, else its prompts are in a cache.

    Raises:
        SamovarError: the server refuses something, or fails.
        httpx.HTTPError: it cannot be reached, or leaves.
    """
    talks: list[Sequence[Turn]] = []
    rounds: dict[int, list[Round]] = {clients: [] for clients in plan.clients}
    meetings: list[Met] = []
    async with connected(server, clock) as connection:
        say("a first question")
        await connection.ask(question(next(tags), plan.words), max_tokens=4, fields={})
        for number in range(1, plan.rounds + 1):
            which = f"round {number} of {plan.rounds}"
            say(f"{which}: a conversation of {plan.turns} turns")
            talks.append(await _talk(connection, plan, next(tags)))
            for clients, measured in rounds.items():
                say(f"{which}: clients at a time: {clients}")
                load = Load(clients, _REQUESTS, plan.words, plan.max_tokens)
                measured.append(await round_of(connection, load, tags, fields={}))
            say(f"{which}: a long prompt beside {_STREAMS} replies")
            meeting = Meeting(_STREAMS, plan.flowing, plan.long_words, _STREAM_TOKENS)
            meetings.append(await meet(connection, meeting, tags, fields={}))
    return Found(talks, rounds, meetings)


async def _talk(connection: Connection, plan: Plan, tag: str) -> list[Turn]:
    return await talk(
        connection,
        question(tag, plan.words),
        follow_ups(tag, plan.turns, plan.words),
        max_tokens=plan.max_tokens,
        think_seconds=0,
        fields={"prompt_cache_key": tag},
    )


def summary(found: Found) -> dict[str, Any]:
    """Medians with the smallest and the largest, as JSON has them. Seconds, and tokens."""
    return {
        "turns": [
            {"turn": number, **_turn(turns)} for number, turns in enumerate(zip(*found.talks, strict=True), 1)
        ],
        "speed": [
            {
                "clients": clients,
                "tokens_per_second": spread([each.tokens_per_second for each in rounds]),
                "first_token_seconds": spread(
                    [seconds for each in rounds for seconds in each.first_token_seconds]
                ),
                "tokens": sum(each.tokens for each in rounds),
            }
            for clients, rounds in found.rounds.items()
        ],
        "gaps": {
            "alone": _gaps([met.alone for met in found.meetings]),
            "beside": _gaps([met.beside for met in found.meetings]),
            "prefill_seconds": spread([met.prefill_seconds for met in found.meetings]),
        },
    }


def singles(found: Found) -> dict[str, Any]:
    """Every single measurement, as JSON has it."""
    told = asdict(found)
    return {**told, "rounds": {str(clients): rounds for clients, rounds in told["rounds"].items()}}


def _turn(turns: Sequence[Turn]) -> dict[str, Any]:
    computed = [turn.computed_tokens for turn in turns if turn.computed_tokens is not None]
    return {
        "prompt_tokens": spread([turn.prompt_tokens for turn in turns]),
        "computed_tokens": spread(computed) if computed else None,
        "first_token_seconds": spread([turn.first_token_seconds for turn in turns]),
    }


def _gaps(gaps: Sequence[Gaps]) -> dict[str, Any]:
    return {
        "p50_seconds": spread([each.p50_seconds for each in gaps]),
        "p99_seconds": spread([each.p99_seconds for each in gaps]),
        "max_seconds": spread([each.max_seconds for each in gaps]),
        "count": sum(each.count for each in gaps),
    }


def run(server: Server, plan: Plan, tags: Iterator[str], *, clock: Clock, say: Say) -> Found:
    """`measure`, for a caller that has no event loop."""
    return asyncio.run(measure(server, plan, tags, clock=clock, say=say))
