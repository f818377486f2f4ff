"""A request that is refused before its body is read: its client sends all of it and reads the answer."""

import json
from typing import Any

from app.auth.keyring import Keyring
from tests.support.clock import ManualClock
from tests.support.keys import KEYS, bearer, key
from tests.support.serving import Serving, serving

CHAT = "/v1/chat/completions"
LARGE = b"x" * (10 * 1024**2)
"""More than what the sockets of both ends hold."""

UNREAD: dict[str, tuple[str, str, dict[str, str], int]] = {
    "no key": ("POST", CHAT, {}, 401),
    "an unknown key": ("POST", "/v1/messages", {"x-api-key": "guessed"}, 401),
    "no key, reset": ("POST", "/v1/cache/reset", {}, 401),
    "another scope": ("POST", CHAT, bearer("scraper"), 403),
    "no such route": ("POST", "/v1/nothing", {}, 404),
    "no such page": ("PUT", "/nothing", {}, 404),
    "another method": ("POST", "/v1/cache/stats", bearer("ann"), 405),
    "too large": ("POST", CHAT, bearer("ann"), 413),
    "too large, of a count": ("POST", "/v1/tokenize", bearer("ann"), 413),
    "a body for a GET": ("GET", "/v1/models", {}, 401),
    "a body for a probe": ("GET", "/livez", {}, 200),
}


def head(method: str, path: str, headers: dict[str, str], *more: str) -> bytes:
    """A request up to its body."""
    lines = (f"{method} {path} HTTP/1.1", "host: test", *(f"{n}: {v}" for n, v in headers.items()), *more)
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def answer(served: Serving, *sent: bytes) -> tuple[int, Any]:
    """Status and body of the answer on a connection of its own, once all has been sent."""
    client = await served.sockets.connect()
    for part in sent:
        await client.send(part)
    return await read_answer(client)


async def read_answer(client: Any) -> tuple[int, Any]:
    """Status and body of the next answer."""
    said = (await client.read_until(b"\r\n\r\n")).decode().lower()
    length = int(said.split("content-length: ")[1].split("\r\n")[0])
    body = b""
    while len(body) < length:
        body += await client.read_until(b"}")
    return int(said.split(" ")[1]), json.loads(body)


async def test_a_raw_client_that_sends_all_before_it_reads_gets_its_answer() -> None:
    """Of known length, or in chunks."""
    chunk = f"{2**20:x}\r\n".encode() + LARGE[: 2**20] + b"\r\n"
    async with serving(keyring=Keyring(KEYS)) as served:
        for name, (method, path, headers, status) in UNREAD.items():
            known = head(method, path, headers, f"content-length: {len(LARGE)}")
            assert (await answer(served, known, LARGE))[0] == status, name
            chunked = head(method, path, headers, "transfer-encoding: chunked")
            assert (await answer(served, chunked, *[chunk] * 10, b"0\r\n\r\n"))[0] == status, name


async def test_an_ordinary_client_gets_its_answer() -> None:
    """Httpx sends all of the body, and cannot read an answer after a connection that was reset."""
    async with serving(keyring=Keyring(KEYS)) as served:
        for name, (method, path, headers, status) in UNREAD.items():
            said = await served.client.request(method, path, content=LARGE, headers=headers)

            assert said.status_code == status, name


async def test_a_key_beyond_its_limits_is_told_so() -> None:
    """The 429 of a key comes before the body is read, too."""
    keyring = Keyring([key("slow", requests_per_minute=1)], clock=ManualClock())
    async with serving(keyring=keyring) as served:
        statuses = [
            (await served.client.post(CHAT, content=LARGE, headers=bearer("slow"))).status_code
            for _ in range(2)
        ]
    assert statuses == [413, 429]


async def test_a_page_of_another_origin_is_told_so() -> None:
    """The 403 of a server without keys comes before the body is read, too."""
    async with serving() as served:
        said = await served.client.post(CHAT, content=LARGE, headers={"origin": "http://elsewhere.example"})

        assert said.status_code == 403
        assert said.json()["error"]["code"] == "foreign_origin"


async def test_the_connection_goes_on_after_a_refusal() -> None:
    """What was thrown away is not taken for the next request."""
    async with serving(keyring=Keyring(KEYS)) as served:
        client = await served.sockets.connect()
        await client.send(head("POST", CHAT, {}, f"content-length: {len(LARGE)}") + LARGE)
        assert (await read_answer(client))[0] == 401
        await client.send(head("GET", "/livez", {}))
        status, probe = await read_answer(client)
        assert (status, probe["ok"]) == (200, True)


async def test_a_client_that_asks_first_sends_no_body_in_vain() -> None:
    """`Expect: 100-continue`: the refusal comes in place of the word to go on."""
    async with serving(keyring=Keyring(KEYS)) as served:
        asking = head("POST", CHAT, {}, f"content-length: {len(LARGE)}", "expect: 100-continue")

        assert (await answer(served, asking))[0] == 401
