"""Several conversations that take turns, in an order that is random and the same each time."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from app.bench.replies import connected
from app.bench.talk import Turn, take_turn
from app.bench.texts import Message
from app.clock import monotonic
from benchmarks.servers import Running

Talks = Sequence[Sequence[Message]]
"""What the user says in each turn of each conversation."""


@dataclass(frozen=True)
class Reuse:
    """What was computed of all prompts, and how many turns after a conversation's first found any of it."""

    prompt_tokens: int
    computed_tokens: int
    later_turns: int
    hits: int


def order_of(talks: Talks) -> list[int]:
    """Which conversation speaks next, each as often as it has turns."""
    order = [number for number, talk in enumerate(talks) for _ in talk]
    Random(1).shuffle(order)
    return order


async def interleave(
    running: Running,
    talks: Talks,
    *,
    max_tokens: int,
    fields: Mapping[str, Any],
    between: Callable[[int], Awaitable[None]],
) -> list[list[Turn]]:
    """All conversations to their ends; the turns of each. `between` is told how many turns there were."""
    messages: list[list[Message]] = [[] for _ in talks]
    turns: list[list[Turn]] = [[] for _ in talks]
    async with connected(running.server, monotonic) as connection:
        for number, talk in enumerate(order_of(talks), 1):
            messages[talk].append(talks[talk][len(turns[talk])])
            turn, reply = await take_turn(
                connection,
                messages[talk],
                max_tokens=max_tokens,
                fields={"prompt_cache_key": f"talk {talk}", **fields},
            )
            turns[talk].append(turn)
            messages[talk].append(reply)
            await between(number)
    return turns


def reuse_of(talks: Sequence[Sequence[Turn]]) -> Reuse:
    """Sums over all turns. Both servers here tell what was cached, so that None means nothing."""
    all_turns = [turn for turns in talks for turn in turns]
    later = [turn for turns in talks for turn in turns[1:]]
    return Reuse(
        prompt_tokens=sum(turn.prompt_tokens for turn in all_turns),
        computed_tokens=sum(turn.prompt_tokens - (turn.cached_tokens or 0) for turn in all_turns),
        later_turns=len(later),
        hits=sum(bool(turn.cached_tokens) for turn in later),
    )
