"""What the clients of a soak do, at random. Knows of no law and of no fault."""

import asyncio
import random
from typing import Any

import httpx

PATIENCE_SECONDS = 120
"""A request that takes longer is stuck: each has a few tokens."""

MOST_PATIENCE_SECONDS = 0.5
"""A client that was refused comes back sooner than it was told to, but not at once."""

LEAVERS, SENDERS_OF_NONSENSE = 0.20, 0.05
"""Shares of the requests."""

MOST_WORDS, MOST_TOKENS = 8, 10

MOST_MESSAGES = 6
"""A talk that is longer is left for good."""

WORDS = ("samovar", "tea", "coal", "steam", "cup", "lemon", "sugar", "saucer", "embers", "kettle")
NONSENSE = (b"{", b'{"messages": 1}', b'{"messages": []}', b"\xff\xfe", b'{"messages": [{"role": "tsar"}]}')


class Client:
    """One user with a few sessions.

    Args:
        http: how the server is asked.
        number: makes its sessions its own.
        rng: decides what it does.
    """

    def __init__(self, http: httpx.AsyncClient, number: int, rng: random.Random) -> None:
        self._http = http
        self._number = number
        self._rng = rng
        self._talks: dict[int, list[dict[str, str]]] = {}
        self._begun = 0

    async def ask(self) -> str:
        """One request; how it ended: a status, or `nonsense`, `left`, `streamed` or `stuck`."""
        whim = self._rng.random()
        if whim < SENDERS_OF_NONSENSE:
            return await self._nonsense()
        talk, messages = self._next_turn()
        body = {
            "messages": messages,
            "max_tokens": self._rng.randrange(1, MOST_TOKENS),
            "prompt_cache_key": f"soak-{self._number}-{talk}",
            "temperature": self._rng.choice((0, 0.9)),
        }
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                if whim < SENDERS_OF_NONSENSE + LEAVERS:
                    return await self._leave(body)
                answer = await self._http.post("/v1/chat/completions", json=body)
        except TimeoutError:
            return "stuck"
        if answer.status_code == httpx.codes.TOO_MANY_REQUESTS:
            await asyncio.sleep(self._rng.uniform(0, MOST_PATIENCE_SECONDS))
        if answer.status_code == httpx.codes.OK:
            reply = answer.json()["choices"][0]["message"]["content"] or ""
            self._talks[talk] = [*messages, {"role": "assistant", "content": reply}]
        return str(answer.status_code)

    def _next_turn(self) -> tuple[int, list[dict[str, str]]]:
        """Go on with a talk or begin one."""
        text = " ".join(self._rng.choices(WORDS, k=self._rng.randrange(1, MOST_WORDS)))
        if not self._talks or self._rng.random() < 0.2:
            self._begun += 1
            self._talks[self._begun] = []
        talk = self._rng.choice(tuple(self._talks))
        messages = [*self._talks[talk], {"role": "user", "content": text}]
        if len(messages) > MOST_MESSAGES:
            del self._talks[talk]
        return talk, messages

    async def _leave(self, body: dict[str, Any]) -> str:
        """Stream, and be gone after some bytes."""
        async with self._http.stream("POST", "/v1/chat/completions", json=body | {"stream": True}) as answer:
            left = self._rng.randrange(0, 4)
            async for _ in answer.aiter_raw():
                left -= 1
                if left <= 0:
                    return "left"
        return "streamed"

    async def _nonsense(self) -> str:
        answer = await self._http.post("/v1/chat/completions", content=self._rng.choice(NONSENSE))
        if answer.status_code != httpx.codes.BAD_REQUEST:
            return f"nonsense was answered with {answer.status_code}"
        return "nonsense"
