"""Streamed chat completions, and when each piece of them came. Knows the protocol, and no way to sum up."""

import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from app.bench.texts import Message
from app.clock import Clock
from app.errors import SamovarError

SILENT_SECONDS = 600.0
"""The longest that a server may say nothing: some are silent while they read a prompt."""

_CONNECT_SECONDS = 10.0
_EVENT = "data: "
_LAST = "[DONE]"
_TEXTS = ("content", "reasoning_content", "reasoning")
"""Where servers put what a model says, thinking included."""


@dataclass(frozen=True, slots=True)
class Server:
    """Where to ask, for which model, and with which key; `key` is empty where none is needed."""

    url: str
    model: str
    key: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a server counted. `cached_tokens` of the prompt were not computed; None: it does not say."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int | None


@dataclass(frozen=True, slots=True)
class Piece:
    """Some more of a reply, and when it came by the clock. The piece with the usage may have no text."""

    at_seconds: float
    content: str
    text: str
    calls: tuple[Mapping[str, Any], ...]
    usage: Usage | None

    @property
    def says(self) -> bool:
        """Whether it brings what a model made."""
        return bool(self.text or self.calls)


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole reply. Seconds count from when it was asked for.

    `first_token_seconds` is until its first piece, or its end where no piece says anything: a model may make
    tokens that are no text.
    """

    content: str
    calls: tuple[Mapping[str, Any], ...]
    first_token_seconds: float
    pieces: int
    usage: Usage | None

    @property
    def tokens(self) -> int:
        """How many were made, as the server counted; as many as pieces came where it does not."""
        return self.pieces if self.usage is None else self.usage.completion_tokens


class Connection:
    """Asks one server, by one client.

    Args:
        server: who is asked.
        http: a client of that server, its key included.
        clock: what pieces are timed by.
    """

    def __init__(self, server: Server, http: httpx.AsyncClient, clock: Clock) -> None:
        self.server = server
        self.clock = clock
        self._http = http

    async def pieces(
        self, messages: Sequence[Message], *, max_tokens: int, fields: Mapping[str, Any]
    ) -> AsyncGenerator[Piece, None]:
        """A reply as it comes. `fields` are added to the request.

        Raises:
            SamovarError: the server refuses, or fails in the midst of the reply.
            httpx.HTTPError: it cannot be reached, or leaves.
        """
        request = {
            "model": self.server.model,
            "messages": list(messages),
            "max_tokens": max_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
            **fields,
        }
        async with contextlib.aclosing(await self._answer(request)) as answer:
            if not answer.is_success:
                await answer.aread()
                raise SamovarError(refusal(answer))
            whole = False
            # Read to its end, so that the next request finds the connection open.
            async for line in answer.aiter_lines():
                event = line.removeprefix(_EVENT)
                # What is no event is a comment or the empty line after one.
                if event not in (line, _LAST):
                    yield _read(self._frame(event), self.clock())
                whole |= event == _LAST
        if not whole:
            raise SamovarError(f"{self.server.url} ended a reply before its last event")

    async def _answer(self, body: Mapping[str, Any]) -> httpx.Response:
        """Its beginning. Sent again where the server had closed the connection that was kept open for it."""
        request = self._http.build_request("POST", "/v1/chat/completions", json=body)
        try:
            return await self._http.send(request, stream=True)
        except httpx.RemoteProtocolError:
            return await self._http.send(request, stream=True)

    async def ask(self, messages: Sequence[Message], *, max_tokens: int, fields: Mapping[str, Any]) -> Reply:
        """A whole reply; raises as `pieces` does."""
        began = self.clock()
        came = [piece async for piece in self.pieces(messages, max_tokens=max_tokens, fields=fields)]
        said = [piece for piece in came if piece.says]
        first = said[0].at_seconds if said else self.clock()
        return Reply(
            content="".join(piece.content for piece in said),
            calls=tuple(call for piece in said for call in piece.calls),
            first_token_seconds=first - began,
            pieces=len(said),
            usage=next((piece.usage for piece in reversed(came) if piece.usage is not None), None),
        )

    def _frame(self, event: str) -> Mapping[str, Any]:
        try:
            frame = json.loads(event)
        except ValueError:
            frame = None
        if not isinstance(frame, dict):
            raise SamovarError(f"{self.server.url} sends an event that is no JSON object: {event[:80]!r}")
        if frame.get("error"):
            raise SamovarError(f"{self.server.url} fails in the midst of a reply: {_reason(frame)}")
        return frame


@contextlib.asynccontextmanager
async def connected(server: Server, clock: Clock) -> AsyncIterator[Connection]:
    """A connection for a block, with as many sockets as there are requests at a time."""
    async with httpx.AsyncClient(
        base_url=server.url,
        headers=authorization(server.key),
        timeout=httpx.Timeout(SILENT_SECONDS, connect=_CONNECT_SECONDS),
        limits=httpx.Limits(max_connections=None),
    ) as http:
        yield Connection(server, http, clock)


def authorization(key: str) -> dict[str, str]:
    """The header that carries a key, where there is one."""
    return {"authorization": f"Bearer {key}"} if key else {}


def refusal(answer: httpx.Response) -> str:
    """Why a server did not do what it was asked, in one sentence."""
    try:
        said = answer.json()
    except ValueError:
        said = None
    return f"{answer.url} answers {answer.status_code}: {_reason(said) or answer.reason_phrase}"


def _reason(said: object) -> str:
    """The message of an error, in the forms that servers give it."""
    fault = said.get("error", said.get("detail")) if isinstance(said, dict) else None
    if isinstance(fault, dict):
        fault = fault.get("message")
    return " ".join(str(fault).split()) if fault else ""


def _read(frame: Mapping[str, Any], at_seconds: float) -> Piece:
    choices = frame.get("choices") or [{}]
    delta = choices[0].get("delta") or {}
    return Piece(
        at_seconds=at_seconds,
        content=delta.get("content") or "",
        text="".join(delta.get(name) or "" for name in _TEXTS),
        calls=tuple(delta.get("tool_calls") or ()),
        usage=_usage(frame["usage"]) if frame.get("usage") else None,
    )


def _usage(told: Mapping[str, Any]) -> Usage:
    details = told.get("prompt_tokens_details") or {}
    return Usage(
        prompt_tokens=told.get("prompt_tokens", 0),
        completion_tokens=told.get("completion_tokens", 0),
        cached_tokens=details.get("cached_tokens"),
    )
