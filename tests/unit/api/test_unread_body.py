"""Laws of reading what a client still sends: how much of it, how long, and when not."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, Self

import pytest

from app.api.unread_body import DiscardUnread

START = {"type": "http.response.start", "status": 401, "headers": []}
LENGTH = (b"content-length", b"5")


class Chunk(bytes):
    """Some bytes of a body that count how many of them are kept at a time."""

    live: ClassVar[int] = 0
    most: ClassVar[int] = 0

    def __new__(cls, size: int) -> Self:
        Chunk.live += 1
        Chunk.most = max(Chunk.most, Chunk.live)
        return super().__new__(cls, size)

    def __del__(self) -> None:
        Chunk.live -= 1


class Client:
    """The client's end: what it sends when it is asked for more, and what it was sent."""

    def __init__(self, *messages: dict[str, Any], endless: int = 0) -> None:
        self._messages = iter(messages)
        self._endless = endless
        self.asked = 0
        self.sent: list[Any] = []

    async def receive(self) -> Any:
        self.asked += 1
        if self._endless:
            return part(Chunk(self._endless))
        for message in self._messages:
            return message
        return await asyncio.Event().wait()

    async def send(self, message: Any) -> None:
        self.sent.append(message)


def part(body: bytes, *, more: bool = True) -> dict[str, Any]:
    """A piece of a body."""
    return {"type": "http.request", "body": body, "more_body": more}


async def refuse(_scope: Any, _receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
    """An application that reads nothing."""
    await send(START)


async def serve(client: Client, *headers: tuple[bytes, bytes], app: Any = refuse, **bounds: Any) -> None:
    """One request, to its answer."""
    scope: Any = {"type": "http", "headers": list(headers)}
    await DiscardUnread(app, **bounds)(scope, client.receive, client.send)


@pytest.mark.parametrize("header", [LENGTH, (b"transfer-encoding", b"chunked")])
async def test_the_answer_waits_for_the_end_of_the_body(header: tuple[bytes, bytes]) -> None:
    """All parts are asked for, and nothing after the last."""
    client = Client(part(b"ab"), part(b"cd"), part(b"e", more=False))

    await serve(client, header)

    assert (client.asked, client.sent) == (3, [START])


async def test_a_body_without_an_end_is_read_up_to_the_bound_and_kept_nowhere() -> None:
    """So many bytes, and one part of it in memory at a time."""
    client = Client(endless=1000)

    await serve(client, LENGTH, most_bytes=100_500)

    assert (client.asked, client.sent) == (101, [START])
    assert Chunk.most <= 2
    assert Chunk.live == 0


async def test_a_client_that_stalls_is_answered_when_its_time_is_over() -> None:
    """It may have been waiting for the answer."""
    client = Client(part(b"ab"))

    await serve(client, LENGTH, seconds=0.01)

    assert client.sent == [START]


async def test_a_client_that_has_gone_is_not_waited_for() -> None:
    """Nothing comes after that."""
    client = Client(part(b"ab"), {"type": "http.disconnect"})

    await serve(client, LENGTH)

    assert (client.asked, client.sent) == (2, [START])


@pytest.mark.parametrize("headers", [(), ((b"content-length", b"0"),), ((b"accept", b"*/*"),)])
async def test_a_request_without_a_body_is_answered_at_once(headers: Any) -> None:
    """To ask for more would take for ever."""
    client = Client()

    await serve(client, *headers)

    assert (client.asked, client.sent) == (0, [START])


async def test_a_client_that_waits_to_be_asked_is_asked_for_nothing() -> None:
    """Unless the application has begun to read: then the rest is on its way."""
    client = Client(part(b"ab"), part(b"c", more=False))
    expect = (b"expect", b"100-Continue")

    async def reads_some(_scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send(START)

    await serve(client, LENGTH, expect)
    assert (client.asked, client.sent) == (0, [START])
    await serve(client, LENGTH, expect, app=reads_some)
    assert (client.asked, client.sent) == (2, [START, START])


async def test_an_application_that_listens_for_the_end_is_not_held_up() -> None:
    """It has read all of the body, and something in it waits until the client goes."""
    client = Client(part(b"abc", more=False))

    async def listens(_scope: Any, receive: Any, send: Any) -> None:
        await receive()
        listening = asyncio.ensure_future(receive())
        await asyncio.sleep(0)
        await send(START)
        listening.cancel()

    await serve(client, LENGTH, app=listens)

    assert (client.asked, client.sent) == (2, [START])


async def test_a_body_that_was_read_leaves_nothing_to_wait_for() -> None:
    """The application has all parts, and its answer goes out as it comes."""
    client = Client(part(b"ab"), part(b"c", more=False))
    got: list[bytes] = []

    async def reads_all(_scope: Any, receive: Any, send: Any) -> None:
        more = True
        while more:
            message = await receive()
            got.append(message["body"])
            more = message["more_body"]
        await send(START)
        await send({"type": "http.response.body", "body": b"x", "more_body": False})

    await serve(client, LENGTH, app=reads_all)

    assert (got, client.asked, len(client.sent)) == ([b"ab", b"c"], 2, 2)
