"""Whatever stands before the body: the limits hold, and the server goes on."""

import socket

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.listener import HEADER_BYTES

CHAT = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n"
BODY = b'{"max_tokens": 1, "messages": [{"role": "user", "content": "Hi"}]}'


def exchange(server, sent: bytes, *, leaves: bool = False) -> bytes:
    """What comes back for these bytes, until the server closes or the client says that nothing follows."""
    host, _, port = server.url.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        try:
            connection.sendall(sent)
            if leaves:
                connection.shutdown(socket.SHUT_WR)
            answer = b""
            while more := connection.recv(65536):
                answer += more
        # Closed by the server, which is "not connected" to a shutdown.
        except OSError:
            return b""
        return answer


def status(answer: bytes) -> int | None:
    """The status of an answer, if there is one."""
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else None


@settings(max_examples=40)
@given(
    names=st.lists(
        st.sampled_from(
            (
                *("X-Session-Id", "X-Request-Id", "traceparent", "Authorization", "x-api-key", "Accept"),
                *("Content-Type", "Accept-Encoding", "anthropic-version", "Origin", "Cookie", "Expect"),
            )
        ),
        max_size=4,
    ),
    value=st.binary(max_size=60).filter(lambda given: not set(given) & set(b"\r\n\0")),
)
def test_any_header_is_an_answer_below_500(target, names, value):
    """Names that the server looks at, with values that it does not expect."""
    head = CHAT + b"connection: close\r\n"
    head += b"".join(name.encode() + b": " + value + b"\r\n" for name in names)
    head += b"content-length: %d\r\n\r\n" % len(BODY)
    said = status(exchange(target, head + BODY))

    assert said is not None
    assert said < 500
    assert target.get("/livez").status_code == 200


# Enough beyond the limit that it does not matter how much of it one read of the server's brings.
TOO_LONG = b"a" * (4 * HEADER_BYTES)


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + TOO_LONG + b" HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nhost: x\r\nx-long: " + TOO_LONG + b"\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nhost: x\r\n" + b"".join(b"x-%d: 1\r\n" % n for n in range(9000)) + b"\r\n",
    ],
    ids=["line", "header", "headers"],
)
def test_too_much_before_the_body_is_refused(target, head):
    """431 or 414, or the connection is closed; and the next client is served."""
    assert status(exchange(target, head, leaves=True)) in {None, 414, 431}
    assert target.get("/livez").status_code == 200


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\r\n" * 1000,
        CHAT + b"content-length: 5\r\ncontent-length: 6\r\n\r\n123456",
        CHAT + b"content-length: -1\r\n\r\n",
        CHAT + b"content-length: 99\r\n\r\n{",
        CHAT + b"transfer-encoding: chunked\r\n\r\nzz\r\n{",
        b"GET /\xff\xfe%00%zz?a=%ff HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    ],
    ids=["tls", "http2", "version", "blank", "lengths", "negative", "short", "chunks", "path"],
)
def test_what_is_not_http_harms_nobody(target, sent):
    """A refusal or a closed connection, and the next client is served."""
    said = status(exchange(target, sent, leaves=True))

    assert said is None or 400 <= said < 500
    assert httpx.get(f"{target.url}/livez").status_code == 200
