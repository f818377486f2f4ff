"""Laws of what happens when a client goes away or stops reading."""

import asyncio
from typing import Any

import pytest

from app.api.connection import ClientGoneError, EventWriter, disconnected, unless

LONG = 10.0


class Socket:
    """The two ASGI callables of one request, by hand."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.stuck = False
        self._incoming: asyncio.Queue[Any] = asyncio.Queue()

    async def receive(self) -> Any:
        return await self._incoming.get()

    async def send(self, message: Any) -> None:
        if self.stuck:
            await asyncio.Event().wait()
        self.sent.append(message)

    def disconnect(self) -> None:
        self._incoming.put_nowait({"type": "http.request", "body": b"", "more_body": False})
        self._incoming.put_nowait({"type": "http.disconnect"})


async def test_work_ends_with_its_result() -> None:
    """A client that stays gets what the work returns."""

    async def work() -> int:
        await asyncio.sleep(0)
        return 7

    assert await unless(work(), disconnected(Socket().receive)) == 7


async def test_work_ends_with_its_error() -> None:
    """What the work raises is raised, not turned into a disconnect."""

    async def work() -> None:
        raise ValueError

    with pytest.raises(ValueError):
        await unless(work(), disconnected(Socket().receive))


async def test_disconnect_cancels_the_work_at_once() -> None:
    """When the client goes, the work has been cancelled and has cleaned up before anybody hears of it."""
    socket = Socket()
    cleaned = []

    async def work() -> None:
        socket.disconnect()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(True)

    with pytest.raises(ClientGoneError):
        await asyncio.wait_for(unless(work(), disconnected(socket.receive)), LONG)
    assert cleaned == [True]


async def test_cancelled_request_cancels_its_work() -> None:
    """A request that is cancelled from outside does not leave its work behind."""
    begun, cleaned = asyncio.Event(), []

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(True)

    request = asyncio.create_task(unless(work(), disconnected(Socket().receive)))
    await begun.wait()
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    assert cleaned == [True]


async def test_writer_sends_one_response() -> None:
    """Start, events, end: one response whose body is the events in order."""
    socket = Socket()
    writer = EventWriter(socket.send, write_seconds=LONG)

    await writer.start({"x-told": "yes"})
    await writer.write(b"one")
    await writer.end(b"two")

    start, *bodies = socket.sent
    assert start["status"] == 200
    assert dict(start["headers"])[b"content-type"].startswith(b"text/event-stream")
    assert dict(start["headers"])[b"x-told"] == b"yes"
    assert [(body["body"], body["more_body"]) for body in bodies] == [(b"one", True), (b"two", False)]


async def test_client_that_takes_nothing_counts_as_gone() -> None:
    """A send that does not return within the time ends the request instead of holding it for ever."""
    socket = Socket()
    writer = EventWriter(socket.send, write_seconds=0.001)
    await writer.start({})
    socket.stuck = True

    with pytest.raises(ClientGoneError):
        await asyncio.wait_for(unless(writer.write(b"one"), writer.stuck()), LONG)


async def test_time_between_writes_is_the_servers() -> None:
    """A client that took all there was is not given up, however long nothing more comes."""
    writer = EventWriter(Socket().send, write_seconds=0.001)
    await writer.start({})
    await writer.write(b"one")

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(writer.stuck(), 0.05)
