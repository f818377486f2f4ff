"""Keeps web pages of other origins off a server without keys, which cannot tell them from its user."""

import ipaddress
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler
from litestar.types import Guard

from app.auth.keyring import Keyring
from app.errors import RequestError

ANY_ORIGIN = "*"


def refuse_foreign_pages(keyring: Keyring, origins: Sequence[str], *, local: bool) -> Guard:
    """A guard: refuse what a browser sends for a page that is neither the server's own nor one of `origins`.

    CORS keeps such a page from reading answers, and not from sending: it could empty the store or keep the
    model busy. Where there are keys, it has none. A name of its own that a page lets point to this machine
    (DNS rebinding) makes it look like the server's own; so a `local` server knows its own names.

    It raises RequestError: 403.

    Args:
        keyring: without keys in it, the guard is needed.
        origins: whose pages may use the server; `*` is everybody's.
        local: whether the server listens on a loopback address.
    """

    def guard(connection: ASGIConnection[Any, Any, Any, Any], _handler: BaseRouteHandler) -> None:
        origin = connection.headers.get("origin")
        if origin is None or not keyring.is_open or ANY_ORIGIN in origins or origin in origins:
            return
        host = connection.headers.get("host", "")
        if urlsplit(origin).netloc == host and (_is_loopback(host) or not local):
            return
        raise RequestError(
            "Web pages of other origins may not use this server; server.cors_origins names those that may.",
            status=403,
            kind="permission_error",
            code="foreign_origin",
        )

    return guard


def _is_loopback(host: str) -> bool:
    """Whether `host`, with or without a port, is a name that nobody else can have."""
    name = urlsplit(f"//{host}").hostname or ""
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")
