"""Granian in this process: an address that can be had, a listener on it, its end. Knows no application."""

import asyncio
import contextlib
import errno
import socket
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.embed import Server
from litestar import Litestar

from app.api.unread_body import DISCARDED_BYTES, DiscardUnread
from app.errors import StartError
from app.tls import TlsFiles

START_SECONDS = 10.0
STOP_SECONDS = 2.0
"""How long connections may take to close. A client that does not read would hold up the end for ever."""

HEADER_SECONDS = 30.0
"""How long a client may take to send the headers of a request; a slow one must not keep a connection."""

HEADER_BYTES = 64 * 1024

BACKLOG = 1024
_POLL_SECONDS = 0.01


def reserve_address(host: str, port: int) -> tuple[str, int]:
    """The IP address of `host` and a port on it that is free now: `port`, or any if that is 0.

    Raises:
        StartError: the name has no address, the address is not this machine's, or the port is taken.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise StartError(f"The host '{host}' (server.host) has no address: {error.strerror}.") from error
    # Clients try 127.0.0.1 for localhost, whatever the resolver puts first.
    family, _, _, _, address = min(found, key=lambda each: each[0] != socket.AF_INET)
    # Granian lets several processes share a port, so that it would not notice another server there.
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as error:
            raise StartError(_refusal(host, port, error)) from error
        ip, free_port = probe.getsockname()[:2]
    return ip, free_port


def url_of(address: tuple[str, int], *, tls: bool = False) -> str:
    """Where a client on this machine finds the listener."""
    ip, port = address
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(ip, ip)  # noqa: S104 - compared, not bound
    scheme = "https" if tls else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


class Listener:
    """A Granian server at work in this event loop. Made by `listening`."""

    def __init__(self, address: tuple[str, int], task: asyncio.Task[None]) -> None:
        self._url = url_of(address)
        self._task = task

    async def accepting(self) -> None:
        """Return once a connection is taken. Granian does not say when it listens.

        Raises:
            StartError: it ended instead, or took too long.
        """
        at = urlsplit(self._url)
        give_up = asyncio.get_running_loop().time() + START_SECONDS
        while not self._task.done():
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection(at.hostname, at.port)
                writer.close()
                await writer.wait_closed()
                return
            if asyncio.get_running_loop().time() > give_up:
                raise StartError(f"Nothing listens on {self._url} after {START_SECONDS:g} seconds.")
            await asyncio.sleep(_POLL_SECONDS)
        raise await self.failure()

    async def failure(self) -> StartError:
        """Why the listener ended by itself; waits for ever if it does not."""
        await asyncio.wait([self._task])
        # Granian's errors bring their stack along, after the line that says what was wrong.
        reason = str(self._task.exception() or "see the log").partition("\n")[0]
        return StartError(f"The listener on {self._url} has ended: {reason}.")


@contextlib.asynccontextmanager
async def listening(
    app: Litestar,
    address: tuple[str, int],
    *,
    connections: int,
    header_bytes: int = HEADER_BYTES,
    tls: TlsFiles | None = None,
) -> AsyncIterator[Listener]:
    """Serve an application over HTTP/1.1, and run its lifespan, for as long as the block lasts.

    Args:
        app: the application.
        address: IP address and port.
        connections: most connections at a time, idle ones included.
        header_bytes: longest request line and headers together; longer ones are answered with 431.
        tls: what to serve HTTPS with, from TLS 1.3 on; None serves HTTP.

    Raises:
        StartError: nothing can listen there.
    """
    limit = app.request_max_body_size
    most_body_bytes = limit if isinstance(limit, int) else 0
    server = Server(
        # Whatever may be sent at all is waited for, and of what may not as much as is sent by mistake.
        DiscardUnread(app, most_bytes=max(DISCARDED_BYTES, most_body_bytes)),
        address=address[0],
        port=address[1],
        # The lifespan is ours: Granian would end it badly where a connection cannot be closed in time.
        interface=Interfaces.ASGINL,
        # Over HTTP/2, a client that gives up one stream of a connection is noticed late.
        http=HTTPModes.http1,
        websockets=False,
        backlog=BACKLOG,
        backpressure=connections,
        http1_settings=HTTP1Settings(
            header_read_timeout=int(HEADER_SECONDS * 1000), max_buffer_size=header_bytes
        ),
        ssl_cert=tls.certificate if tls else None,
        ssl_key=tls.key if tls else None,
        # Below that it tells of each client that left, and that embedding it is experimental.
        log_level=LogLevels.error,
        # Its own handlers would write past whatever the program has set up.
        log_dictconfig={"handlers": {}, "loggers": {"_granian": {"propagate": True}}},
    )
    lifespan = app.lifespan()
    await lifespan.__aenter__()
    task = asyncio.get_running_loop().create_task(server.serve())
    try:
        listener = Listener(address, task)
        await listener.accepting()
        yield listener
    finally:
        server.stop()  # type: ignore[no-untyped-call]
        await asyncio.wait([task], timeout=STOP_SECONDS)
        # Granian's last callbacks into the loop come after its task has ended, and fail on a closed loop.
        await asyncio.sleep(0.1)
        # Not by `async with`: an error that passes through Litestar's lifespan comes out as a group of one.
        await lifespan.__aexit__(None, None, None)


def _refusal(host: str, port: int, error: OSError) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return f"Port {port} on {host} is in use; stop what listens there, or choose another with --port."
        case errno.EACCES:
            return f"Port {port} on {host} may not be used by this user; choose one above 1023 with --port."
        case errno.EADDRNOTAVAIL:
            return f"The host '{host}' (server.host) is not an address of this machine."
        case _:
            return f"Port {port} on {host} cannot be used: {error.strerror}."
