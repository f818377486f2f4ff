"""What is kept about a request while it is answered: its id, and how it ended. Knows no route's meaning."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus

from litestar.types import ASGIApp, HTTPResponseStartEvent, Receive, Scope, Send

from app.api.response_start import SeeingStart
from app.api.stream import OpenRequests
from app.bus import Emit
from app.clock import Clock
from app.events import RequestEnded
from app.vocabulary import Outcome

CLIENT_CLOSED_STATUS = 499
"""What is noted for a request whose client left before anything was sent (nginx's number for it)."""

_SANE_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")


@dataclass(slots=True)
class Exchange:
    """One request's end. `outcome` is set where the status alone does not tell it.

    `job_ids`: the jobs that the engine took for it, each added once it has been submitted.
    """

    outcome: Outcome | None = None
    status: int | None = None
    job_ids: list[str] = field(default_factory=list)


def exchange_of(scope: Scope) -> Exchange:
    """The record that `CountRequests` keeps for this request."""
    exchange: Exchange = scope["state"]["exchange"]
    return exchange


class IdentifyRequests:
    """Middleware: every response says which request it answers, by the client's own id if that is sane."""

    def __init__(self, app: ASGIApp, new_id: Callable[[], str]) -> None:
        self._app = app
        self._new_id = new_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"").decode(
            "latin-1"
        )
        request_id = given if _SANE_ID.fullmatch(given) else self._new_id()
        scope["state"]["request_id"] = request_id

        def add_id(start: HTTPResponseStartEvent) -> None:
            start["headers"] = [*start["headers"], (b"x-request-id", request_id.encode())]

        await self._app(scope, receive, SeeingStart(send, add_id))


class CountRequests:
    """Middleware of the inference routes: a request is open until its last byte, and ends in one event."""

    def __init__(self, app: ASGIApp, requests: OpenRequests, emit: Emit, clock: Clock) -> None:
        self._app = app
        self._requests = requests
        self._emit = emit
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange()
        scope["state"]["exchange"] = exchange
        began = self._clock()

        def note_status(start: HTTPResponseStartEvent) -> None:
            exchange.status = start["status"]

        with self._requests.one():
            try:
                await self._app(scope, receive, SeeingStart(send, note_status))
            finally:
                # Without a status nothing was answered: the client left, or the server was stopped by force.
                status = exchange.status or CLIENT_CLOSED_STATUS
                caller = scope["state"].get("caller")
                outcome = exchange.outcome or _outcome(exchange.status)
                self._emit(
                    RequestEnded(
                        scope["path_template"],
                        outcome,
                        status,
                        self._clock() - began,
                        tuple(exchange.job_ids),
                        scope["state"].get("request_id"),
                        caller.key if caller else None,
                    )
                )


def _outcome(status: int | None) -> Outcome:
    """How a request ended, as far as its status tells."""
    if status is None:
        return Outcome.CANCELLED
    if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
        return Outcome.REFUSED
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Outcome.FAILED
    if status >= HTTPStatus.BAD_REQUEST:
        return Outcome.INVALID
    return Outcome.COMPLETED
