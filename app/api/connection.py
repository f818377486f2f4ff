"""The client's end of a request: whether it is still there, and whether it still reads. Knows no route."""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from litestar.types import Receive, Send

from app.api.alarm import Alarm
from app.api.response_start import past_start

T = TypeVar("T")


class ClientGoneError(Exception):
    """The client closed its connection or reads nothing; nobody is left to be answered."""


async def unless(work: Coroutine[Any, Any, T], *ends: Coroutine[Any, Any, None]) -> T:
    """The result of `work`, which is cancelled at once when one of `ends` comes first.

    Raises:
        ClientGoneError: an end came first.
    """
    task = asyncio.ensure_future(work)
    others = [asyncio.ensure_future(end) for end in ends]
    try:
        await asyncio.wait([task, *others], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGoneError
        return task.result()
    finally:
        for each in (task, *others):
            each.cancel()
        await asyncio.gather(task, *others, return_exceptions=True)


async def disconnected(receive: Receive) -> None:
    """Return when the client has gone. Await it after the body was read: what comes then can only be the end.

    Granian's send says nothing of a disconnect, so that the only way to know is to listen.
    """
    while (await receive())["type"] != "http.disconnect":
        pass


class EventWriter:
    """Writes an event stream; the response starts with the first write, so that until then it can be another.

    Args:
        send: the ASGI send.
        write_seconds: how long the client may take nothing before it counts as gone.
    """

    def __init__(self, send: Send, *, write_seconds: float) -> None:
        self._send = send
        self._write_seconds = write_seconds
        self._stuck = asyncio.Event()
        self._patience = Alarm(asyncio.get_running_loop(), self._stuck.set)

    async def stuck(self) -> None:
        """Return once the client has taken nothing for too long; a write may hang for ever then.

        One end of `unless`, whose work writes: a timeout around each write would cost more than the write.
        """
        try:
            await self._stuck.wait()
        finally:
            self._patience.close()

    async def start(self, headers: Mapping[str, str]) -> None:
        """Send status 200 and the headers."""
        fields = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache", **headers}
        await self._within_time(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [(name.encode(), value.encode()) for name, value in fields.items()],
            }
        )
        self._send = past_start(self._send)

    async def write(self, events: bytes) -> None:
        """Send some events in one piece."""
        await self._within_time({"type": "http.response.body", "body": events, "more_body": True})

    async def end(self, events: bytes) -> None:
        """Send the last events and end the response."""
        await self._within_time({"type": "http.response.body", "body": events, "more_body": False})

    async def _within_time(self, message: Any) -> None:
        # With its buffers full, Granian's send waits for ever, even after the client has closed its socket.
        self._patience.set(self._write_seconds)
        await self._send(message)
        self._patience.unset()
