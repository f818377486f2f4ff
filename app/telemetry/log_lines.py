"""The listener that turns events into log lines: one a request, and details of the store at debug level."""

import logging
from typing import assert_never

from opentelemetry.trace import format_span_id, format_trace_id
from structlog.typing import FilteringBoundLogger

from app.events import (
    CaptureDeclined,
    EngineRebuilt,
    Event,
    GenerationEnded,
    LookupHit,
    LookupMissed,
    Outcome,
    PayloadRestored,
    PayloadSealed,
    RequestEnded,
    SnapshotEvent,
    SnapshotInserted,
    SnapshotRejected,
    SnapshotRemoved,
    TraceRef,
    Transaction,
    WarmupEnded,
)
from app.telemetry.snapshot_facts import Facts, HashSession, facts_of
from app.telemetry.stages import stages_of


class EventLines:
    """Writes to `logger`; called on whichever thread an event comes from.

    Args:
        logger: where lines go; asked first whether it wants them.
        hash_session: names a session in `session.hash`, as spans do.
    """

    def __init__(self, logger: FilteringBoundLogger, *, hash_session: HashSession) -> None:
        self._logger = logger
        self._hash_session = hash_session

    def __call__(self, event: Event) -> None:
        """Write the lines of one event."""
        match event:
            case GenerationEnded():
                self._generation(event)
            case EngineRebuilt():
                self._logger.error("engine rebuilt", error=event.error, failed_jobs=event.failed_jobs)
            case RequestEnded():
                self._request(event)
            case Transaction() | PayloadSealed() | PayloadRestored() | CaptureDeclined() | WarmupEnded():
                if self._logger.is_enabled_for(logging.DEBUG):
                    self._detail(event)
            case _:
                assert_never(event)

    def _generation(self, ended: GenerationEnded) -> None:
        seconds = {stage.name: stage.seconds for stage in stages_of(ended)}
        self._logger.info(
            "generation",
            job_id=ended.job_id,
            finish_reason=ended.reason.value,
            queue_seconds=seconds.get("queue"),
            prefill_seconds=seconds.get("prefill"),
            decode_seconds=seconds.get("decode"),
            prompt_tokens=ended.prompt_tokens,
            cached_tokens=ended.cached_tokens,
            generated_tokens=ended.generated_tokens,
            miss=None if ended.miss is None else ended.miss.value,
            error=ended.error,
            **_trace(ended.cause),
        )

    def _request(self, ended: RequestEnded) -> None:
        # A request that ran has its generation line; this one matters where the server is at fault.
        write = self._logger.warning if ended.outcome is Outcome.FAILED else self._logger.debug
        write(
            "request",
            route=ended.route,
            outcome=ended.outcome.value,
            status=ended.status,
            seconds=ended.seconds,
        )

    def _detail(
        self, event: Transaction | PayloadSealed | PayloadRestored | CaptureDeclined | WarmupEnded
    ) -> None:
        trace = _trace(event.cause)
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


def _trace(cause: TraceRef | None) -> Facts:
    if cause is None:
        return {}
    return {"trace_id": format_trace_id(cause.trace_id), "span_id": format_span_id(cause.span_id)}
