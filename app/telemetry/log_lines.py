"""The listener that turns events into log lines: one a request, and details of the store at debug level."""

import logging
from typing import assert_never

from structlog.typing import FilteringBoundLogger

from app.events import (
    AdminCalled,
    CaptureDeclined,
    EngineRebuilt,
    Event,
    GenerationEnded,
    LookupHit,
    LookupMissed,
    PayloadRestored,
    PayloadSealed,
    RequestEnded,
    SnapshotEvent,
    SnapshotInserted,
    SnapshotRejected,
    SnapshotRemoved,
    Transaction,
    WarmupEnded,
)
from app.telemetry.access_lines import AccessLines
from app.telemetry.request_ends import RequestEnds
from app.telemetry.snapshot_facts import SESSION_HASH, HashSession, facts_of
from app.telemetry.trace_fields import trace_fields


class EventLines:
    """Writes to `logger`; called on whichever thread an event comes from.

    Args:
        logger: where lines go; asked first whether it wants them.
        hash_session: names a session in `session.hash`, as spans do.
    """

    def __init__(self, logger: FilteringBoundLogger, *, hash_session: HashSession) -> None:
        self._logger = logger
        self._hash_session = hash_session
        self._requests = RequestEnds(AccessLines(logger, hash_session=hash_session).write)

    def __call__(self, event: Event) -> None:
        """Write the lines of one event."""
        match event:
            case GenerationEnded():
                self._requests.generation_ended(event)
            case EngineRebuilt():
                self._logger.error("engine rebuilt", error=event.error, failed_jobs=event.failed_jobs)
            case RequestEnded():
                self._requests.request_ended(event)
            case AdminCalled():
                self._admin_called(event)
            case Transaction() | PayloadSealed() | PayloadRestored() | CaptureDeclined() | WarmupEnded():
                if self._logger.is_enabled_for(logging.DEBUG):
                    self._detail(event)
            case _:
                assert_never(event)

    def _admin_called(self, event: AdminCalled) -> None:
        session = {} if event.session is None else {SESSION_HASH: self._hash_session(event.session)}
        said = {"key": event.key, "tenant": event.tenant, "client": event.client, "status": event.status}
        self._logger.info("admin call", action=event.action, **said, **session)

    def _detail(
        self, event: Transaction | PayloadSealed | PayloadRestored | CaptureDeclined | WarmupEnded
    ) -> None:
        trace = trace_fields(event.cause)
        match event:
            case Transaction():
                where = {"seq": event.seq, "call": event.call.value}
                for part in event.events:
                    self._logger.debug(_name(part), **where, **facts_of(part, self._hash_session), **trace)
            case PayloadSealed():
                self._logger.debug(
                    "snapshot captured",
                    origin=event.origin.value,
                    tokens=event.tokens,
                    bytes=event.nbytes,
                    seconds=event.ended - event.started,
                    **trace,
                )
            case PayloadRestored():
                self._logger.debug(
                    "snapshot restored",
                    tokens=event.tokens,
                    bytes=event.nbytes,
                    seconds=event.ended - event.started,
                    error=event.error,
                    **trace,
                )
            case CaptureDeclined():
                self._logger.debug("capture declined", reason=event.reason, **trace)
            case WarmupEnded():
                self._logger.debug(
                    "warm-up",
                    outcome=event.outcome.value,
                    tokens=event.tokens,
                    computed_tokens=event.computed_tokens,
                    **trace,
                )
            case _:
                assert_never(event)


def _name(event: SnapshotEvent) -> str:
    match event:
        case SnapshotInserted():
            return "snapshot inserted"
        case SnapshotRemoved():
            return "snapshot removed"
        case SnapshotRejected():
            return "snapshot rejected"
        case LookupHit() | LookupMissed():
            return "snapshot lookup"
        case _:
            assert_never(event)
