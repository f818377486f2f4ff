"""Who sent a request, and whether they may: guards of routes. Knows no route and where no key comes from."""

import contextlib
from collections.abc import Iterable
from typing import Any

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler
from litestar.types import ASGIApp, Guard, Receive, Scope, Send

from app.auth.key import ANYBODY, ApiKey, Caller
from app.auth.key import Scope as KeyScope
from app.auth.keyring import Keyring
from app.errors import RequestError

_REALM = 'Bearer realm="samovar"'
_BEARER = b"bearer "

_HOW = "send one as `Authorization: Bearer …` or in the header `x-api-key`"


def caller_of(scope: Scope) -> Caller:
    """Who sent the request, once a guard has let it through."""
    caller: Caller = scope["state"]["caller"]
    return caller


def may(keyring: Keyring, *scopes: KeyScope) -> Guard:
    """A guard: let through whoever has one of `scopes`, and note who it is.

    It raises RequestError: 401 there is no key, or an unknown one; 403 the key may not do this.
    """

    def guard(connection: ASGIConnection[Any, Any, Any, Any], _handler: BaseRouteHandler) -> None:
        state = connection.scope["state"]
        if keyring.is_open:
            state["caller"] = ANYBODY
            return
        key = _key(keyring, connection.scope["headers"])
        state["key"] = key
        caller = state["caller"] = Caller(key.name, key.tenant, key.scopes)
        if caller.scopes.isdisjoint(scopes):
            raise _forbidden(scopes)

    return guard


def within_limits(keyring: Keyring) -> Guard:
    """A guard behind `may`: count the request against its key's limits until it has been answered.

    It raises RequestError: 429. The route needs `HoldPlaces`.
    """

    def guard(connection: ASGIConnection[Any, Any, Any, Any], _handler: BaseRouteHandler) -> None:
        state = connection.scope["state"]
        if (key := state.get("key")) is not None:
            state["places"].enter_context(keyring.admitted(key))

    return guard


class HoldPlaces:
    """Middleware: what a guard entered for a request is left with the last byte of its answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with contextlib.ExitStack() as places:
            scope["state"]["places"] = places
            await self._app(scope, receive, send)


def own_or_any(caller: Caller, tenant: str | None) -> str | None:
    """Whose numbers or snapshots `caller` speaks of by `tenant`; None: everybody's.

    Raises:
        RequestError: 403; it is another tenant, and the caller is no administrator.
    """
    if KeyScope.ADMIN in caller.scopes:
        return tenant
    if tenant not in (None, caller.tenant):
        raise _forbidden((KeyScope.ADMIN,))
    return caller.tenant


def _key(keyring: Keyring, headers: Iterable[tuple[bytes, bytes]]) -> ApiKey:
    secret = _secret(dict(reversed(list(headers))))
    if secret is None:
        raise RequestError(
            f"This server needs an API key: {_HOW}.",
            status=401,
            kind="authentication_error",
            code="missing_api_key",
            challenge=_REALM,
        )
    key = keyring.find(secret)
    if key is None:
        raise RequestError(
            f"The API key is not one of this server's: {_HOW}.",
            status=401,
            kind="authentication_error",
            code="invalid_api_key",
            challenge=f'{_REALM}, error="invalid_token"',
        )
    return key


def _secret(headers: dict[bytes, bytes]) -> bytes | None:
    """The first that is there; `headers` are the first of each name."""
    given = headers.get(b"authorization", b"")
    if given[: len(_BEARER)].lower() == _BEARER:
        return given[len(_BEARER) :].strip()
    return headers.get(b"x-api-key")


def _forbidden(scopes: Iterable[KeyScope]) -> RequestError:
    needed = " or ".join(scopes)
    return RequestError(
        f"This API key may not do that: it takes the scope {needed}.",
        status=403,
        kind="permission_error",
        code="insufficient_scope",
        challenge=f'{_REALM}, error="insufficient_scope", scope="{" ".join(scopes)}"',
    )
