"""Clients of a server that may fail: what each was told, frame by frame."""

import asyncio
import json
from typing import Any

import httpx

END_OF_TURN = 257


def question(number: int, max_tokens: int, **fields: Any) -> dict[str, Any]:
    """A request whose reply is as long as it may be; each number is a session of its own."""
    return {
        "messages": [{"role": "user", "content": f"Question {number}: " + "tea " * 12}],
        "temperature": 0,
        "max_tokens": max_tokens,
        "prompt_cache_key": f"client-{number}",
        # A random model may end its turn at any time; here it talks until it is stopped.
        "logit_bias": {str(END_OF_TURN): -100},
        **fields,
    }


async def stream(
    client: httpx.AsyncClient, body: dict[str, Any], *, started: asyncio.Event | None = None
) -> tuple[str, str | None, dict[str, Any] | None]:
    """Stream one reply: its text, its finish reason, and the error that ended it."""
    text, finish = "", None
    async with client.stream("POST", "/v1/chat/completions", json=body | {"stream": True}) as answer:
        if answer.status_code != httpx.codes.OK:
            return "", None, json.loads(await answer.aread())["error"]
        async for line in answer.aiter_lines():
            if not line.startswith("data: ") or line == "data: [DONE]":
                continue
            frame = json.loads(line.removeprefix("data: "))
            if "error" in frame:
                return text, finish, frame["error"]
            choice = frame["choices"][0]
            text += choice["delta"].get("content") or ""
            finish = choice["finish_reason"] or finish
            if started is not None and text:
                started.set()
    return text, finish, None


async def until(client: httpx.AsyncClient, *, running: int, waiting: int = 0, seconds: float = 60) -> None:
    """Wait for the server to have so many requests."""
    async with asyncio.timeout(seconds):
        while True:
            probe = (await client.get("/readyz")).json()
            if (probe["running"], probe["waiting"]) == (running, waiting):
                return
            await asyncio.sleep(0.01)
