"""Says of each call that removes snapshots who made it, what it was about and what it came to."""

from urllib.parse import parse_qs

from litestar.types import ASGIApp, HTTPResponseStartEvent, HTTPScope, Receive, Scope, Send

from app.api.exchange import CLIENT_CLOSED_STATUS
from app.api.response_start import SeeingStart
from app.auth.key import is_name
from app.bus import Emit
from app.events import AdminCalled

SESSION = "session"
"""The path parameter that names a session."""


class AuditCalls:
    """Middleware of such routes: every call is one event, whether or not it was allowed."""

    def __init__(self, app: ASGIApp, emit: Emit) -> None:
        self._app = app
        self._emit = emit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        status = CLIENT_CLOSED_STATUS

        def note_status(start: HTTPResponseStartEvent) -> None:
            nonlocal status
            status = start["status"]

        try:
            await self._app(scope, receive, SeeingStart(send, note_status))
        finally:
            self._emit(_called(scope, status))


def _called(scope: Scope, status: int) -> AdminCalled:
    request: HTTPScope = scope  # type: ignore[assignment]
    caller = scope["state"].get("caller")
    session = scope["path_params"].get(SESSION)
    client = scope["client"]
    return AdminCalled(
        action=f"{request['method']} {scope['path_template']}",
        key=caller.key if caller else None,
        tenant=_tenant(scope["query_string"]),
        session=None if session is None else session_of(str(session)),
        status=status,
        client=str(client[0]) if client else None,
    )


def session_of(path: str) -> str:
    """A client's own key as a path names it; it may have slashes in it."""
    return path.removeprefix("/")


def _tenant(query: bytes) -> str | None:
    """As it was asked for, if it can be one: a log is no place for whatever else somebody writes."""
    asked = parse_qs(query.decode("latin-1")).get("tenant", [""])[0]
    return asked if is_name(asked) else None
