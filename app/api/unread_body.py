"""Reads what a client still sends before it is answered, and throws it away. Knows no route.

A server that answers a request whose body it has not read has to close the connection. A client that still
sends then gets an error in place of the answer: it never learns that its key was missing, or its request
too large.
"""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

from litestar.types import ASGIApp, HTTPReceiveMessage, HTTPResponseStartEvent, Receive, Scope, Send

from app.api.response_start import SeeingStart

DISCARDED_BYTES = 64 * 1024**2
DISCARD_SECONDS = 30.0
"""How much of a body is read for nothing, and how long: strangers send such requests too."""


class DiscardUnread:
    """An application around another: each answer waits until its request has been sent, within bounds.

    One chunk of the body is in memory at a time.

    Args:
        app: the application.
        most_bytes: of a body; what is longer is not waited for.
        seconds: how long a client may take to send the rest.
    """

    def __init__(
        self, app: ASGIApp, *, most_bytes: int = DISCARDED_BYTES, seconds: float = DISCARD_SECONDS
    ) -> None:
        self._app = app
        self._most_bytes = most_bytes
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not _has_body(scope["headers"]):
            await self._app(scope, receive, send)
            return
        body = _Body(receive, waits=_waits_for_us(scope["headers"]))

        async def discard_rest(_start: HTTPResponseStartEvent) -> None:
            if body.is_coming:
                await _within(self._seconds, body.read(self._most_bytes))

        await self._app(scope, body.receive, SeeingStart(send, discard_rest))


class _Body:
    """A request's body on its way to the application, or to nobody.

    Args:
        receive: where it comes from.
        waits: whether the client sends nothing of it before it is asked to.
    """

    def __init__(self, receive: Receive, *, waits: bool) -> None:
        self._receive = receive
        self._waits = waits
        self._ended = False

    @property
    def is_coming(self) -> bool:
        """Whether there is more of it to wait for."""
        return not (self._ended or self._waits)

    async def receive(self) -> HTTPReceiveMessage:
        """The next message for the application, which may also wait for the connection's end in that way."""
        self._waits = False
        message: HTTPReceiveMessage = await self._receive()  # type: ignore[assignment]
        self._ended = message["type"] != "http.request" or not message["more_body"]
        return message

    async def read(self, most_bytes: int) -> None:
        """Read on to the end, or until that many bytes have come."""
        while self.is_coming and most_bytes > 0:
            message = await self.receive()
            if message["type"] == "http.request":
                most_bytes -= len(message["body"])


async def _within(seconds: float, work: Coroutine[Any, Any, None]) -> None:
    """Do `work`, or as much of it as there is time for."""
    # Not asyncio.timeout, which cancels the task that it is in: Granian's cannot be cancelled.
    task = asyncio.ensure_future(work)
    await asyncio.wait([task], timeout=seconds)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _has_body(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
        for name, value in headers
    )


def _waits_for_us(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """`Expect: 100-continue`: the answer in its place tells the client not to send the body at all."""
    return any(name == b"expect" and value.lower() == b"100-continue" for name, value in headers)
