"""A conversation that grows, turn by turn. Knows how to ask, and no server."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.bench.replies import Connection, Reply
from app.bench.texts import Message
from app.errors import SamovarError


@dataclass(frozen=True, slots=True)
class Turn:
    """One answered turn. `cached_tokens` and `computed_tokens` are None where the server does not say."""

    prompt_tokens: int
    cached_tokens: int | None
    first_token_seconds: float

    @property
    def computed_tokens(self) -> int | None:
        """What of the prompt came from no cache."""
        return None if self.cached_tokens is None else self.prompt_tokens - self.cached_tokens


async def take_turn(
    connection: Connection, messages: Sequence[Message], *, max_tokens: int, fields: Mapping[str, Any]
) -> tuple[Turn, Message]:
    """One turn, and its reply as a client sends it back.

    Raises:
        SamovarError: as `Connection.pieces` does, or the server counts no tokens of prompts.
    """
    reply = await connection.ask(messages, max_tokens=max_tokens, fields=fields)
    if reply.usage is None:
        raise SamovarError(
            f"{connection.server.url} sends no usage in streams, which says how long its prompts are"
        )
    turn = Turn(reply.usage.prompt_tokens, reply.usage.cached_tokens, reply.first_token_seconds)
    return turn, _echo(reply)


async def talk(
    connection: Connection,
    opening: Sequence[Message],
    later: Sequence[Message],
    *,
    max_tokens: int,
    think_seconds: float,
    fields: Mapping[str, Any],
) -> list[Turn]:
    """A whole conversation, with the time a person takes between its turns; raises as `take_turn` does."""
    messages = list(opening)
    turns: list[Turn] = []
    for message in (None, *later):
        if message is not None:
            await asyncio.sleep(think_seconds)
            messages.append(message)
        turn, reply = await take_turn(connection, messages, max_tokens=max_tokens, fields=fields)
        turns.append(turn)
        messages.append(reply)
    return turns


def _echo(reply: Reply) -> Message:
    said: Message = {"role": "assistant", "content": reply.content}
    return {**said, "tool_calls": list(reply.calls)} if reply.calls else said
