"""Lets middleware see a response begin, and stand in nobody's way once it has. Knows no routes."""

from collections.abc import Awaitable, Callable

from litestar.types import HTTPResponseStartEvent, Message, Send


class SeeingStart:
    """An ASGI send that shows a response's start to `see`, which may add to it, before it is sent on.

    What `see` returns to be awaited, the start waits for.
    """

    __slots__ = ("_see", "behind")

    def __init__(self, send: Send, see: Callable[[HTTPResponseStartEvent], Awaitable[None] | None]) -> None:
        self.behind = send
        self._see = see

    async def __call__(self, message: Message) -> None:
        """Send."""
        if message["type"] == "http.response.start" and (more := self._see(message)) is not None:
            await more
        await self.behind(message)


def past_start(send: Send) -> Send:
    """What `send` comes to for a response that has begun: a stream goes through it at each token."""
    while isinstance(send, SeeingStart):
        send = send.behind
    return send
