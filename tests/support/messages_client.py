"""Anthropic's official client against a scripted server: what it asks, and what it makes of the answer."""

import asyncio
from typing import Any

from anthropic import AsyncAnthropic

from tests.support.scripted_engine import ANSWER, CALL, THINK
from tests.support.serving import Serving

HELLO: Any = [{"role": "user", "content": "Hello"}]
PROMPT = "user: Hello\n"
NOW: Any = {"name": "now", "description": "What time it is.", "input_schema": {"type": "object"}}
SAID = f'{THINK}hm{ANSWER}One moment.{CALL}now {{"town": "Zürich"}}{CALL}now {{"town": "Bern"}}'


def client_of(served: Serving, **options: Any) -> AsyncAnthropic:
    """The official client, without retries of its own."""
    return AsyncAnthropic(
        base_url=served.url, **{"api_key": "unused", "max_retries": 0, "timeout": 10, **options}
    )


async def whole(served: Serving, said: str, **fields: Any) -> Any:
    """A message that comes in one."""
    start = {key: fields.pop(key) for key in ("cached_tokens", "miss") if key in fields}
    async with client_of(served) as client:
        message, _ = await asyncio.gather(
            client.messages.create(**{"model": "scripted", "max_tokens": 99, "messages": HELLO, **fields}),
            served.engine.answer(said, **start),
        )
        return message


async def streamed(served: Serving, said: str, **fields: Any) -> Any:
    """The message that the client puts together from a stream."""
    start = {key: fields.pop(key) for key in ("cached_tokens", "miss") if key in fields}
    async with client_of(served) as client:

        async def read() -> Any:
            asked = {"model": "scripted", "max_tokens": 99, "messages": HELLO, **fields}
            async with client.messages.stream(**asked) as stream:
                return await stream.get_final_message()

        message, _ = await asyncio.gather(read(), served.engine.answer(said, **start))
        return message
