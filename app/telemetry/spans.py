"""The listener that turns events into spans, after the fact and with the times the events carry.

Names and nesting are those of docs/metrics.md. Neither prompt text nor a session's own key is ever told.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from opentelemetry.context import Context
from opentelemetry.trace import Link, NonRecordingSpan, Span, Status, StatusCode, Tracer, set_span_in_context

from app.clock import Clock
from app.events import (
    AdminCalled,
    CaptureDeclined,
    EngineRebuilt,
    Event,
    GenerationEnded,
    PayloadRestored,
    PayloadSealed,
    RequestEnded,
    SnapshotEvent,
    SnapshotRejected,
    SnapshotRemoved,
    TraceRef,
    Transaction,
    WarmupEnded,
)
from app.telemetry.snapshot_facts import SESSION_HASH, Facts, HashSession, facts_of
from app.telemetry.stages import stages_of
from app.telemetry.tracing import span_context
from app.vocabulary import FinishReason, Rejection, Removal, StoreCall

MAX_REMOVAL_SPANS = 32
"""A call that removes more entries than this makes one summary span, so that a clear is not a flood."""

SUMMARY_SPAN = "snapshot.removals"

REMOVAL_SPANS: Mapping[Removal, str] = {
    Removal.SUPERSEDED: "snapshot.supersede",
    Removal.REPLACED: "snapshot.replace",
    Removal.LRU_BYTES: "snapshot.evict",
    Removal.LRU_ENTRIES: "snapshot.evict",
    Removal.LRU_ARRAYS: "snapshot.evict",
    Removal.PRESSURE: "snapshot.evict",
    Removal.TTL: "snapshot.expire",
    Removal.CLEARED: "snapshot.remove",
}

ROOT_CALLS = frozenset({StoreCall.SWEEP, StoreCall.CLEAR, StoreCall.SHED})
"""Calls that are no part of a request: their spans are roots, linked to what brought them about."""

PREFIX = "samovar.snapshot."


class EventSpans:
    """Makes spans with `tracer`; called on whichever thread an event comes from.

    Args:
        tracer: of the process's own provider.
        hash_session: names a session in `session.hash`.
        clock: the clock that the events' times are from.
        unix_nanoseconds: wall time, read with the clock at each event: a laptop's sleep parts the two.
    """

    def __init__(
        self, tracer: Tracer, *, hash_session: HashSession, clock: Clock, unix_nanoseconds: Callable[[], int]
    ) -> None:
        self._tracer = tracer
        self._hash_session = hash_session
        self._clock = clock
        self._unix_nanoseconds = unix_nanoseconds

    def __call__(self, event: Event) -> None:
        """Make the spans of one event; none where its trace is not sampled."""
        match event:
            case Transaction() | PayloadSealed() | PayloadRestored() | WarmupEnded() | GenerationEnded():
                if event.cause is None or event.cause.sampled:
                    self._record(event)
            case CaptureDeclined() | RequestEnded() | EngineRebuilt() | AdminCalled():
                pass
            case _:
                assert_never(event)

    def _record(
        self, event: Transaction | PayloadSealed | PayloadRestored | WarmupEnded | GenerationEnded
    ) -> None:
        pen = _Pen(self._tracer, self._unix_nanoseconds() - _nanoseconds(self._clock()))
        match event:
            case Transaction():
                self._transaction(event, pen)
            case PayloadSealed():
                _capture(event, pen)
            case PayloadRestored():
                _restore(event, pen)
            case WarmupEnded():
                _warmup(event, pen)
            case GenerationEnded():
                _stages(event, pen)
            case _:
                assert_never(event)

    def _transaction(self, transaction: Transaction, pen: "_Pen") -> None:
        is_root = transaction.call in ROOT_CALLS
        times = (transaction.started, transaction.ended)
        removals = [event for event in transaction.events if isinstance(event, SnapshotRemoved)]
        others = [event for event in transaction.events if not isinstance(event, SnapshotRemoved)]
        attributes: Facts = {}
        for event in others:
            attributes.update(self._attributes(event))
        span = pen.draw(
            f"snapshot.{transaction.call.value}",
            times,
            Context() if is_root else _inside(transaction.cause),
            attributes,
            links=_links(transaction.cause) if is_root else (),
        )
        if not span.get_span_context().trace_flags.sampled:
            return
        within = set_span_in_context(span, Context())
        for event in others:
            if isinstance(event, SnapshotRejected):
                pen.draw("snapshot.reject", times, within, attributes)
        if len(removals) > MAX_REMOVAL_SPANS:
            pen.draw(SUMMARY_SPAN, times, within, _summary(removals))
            return
        for removal in removals:
            pen.draw(
                REMOVAL_SPANS[removal.reason],
                times,
                within,
                self._attributes(removal),
                links=_links(removal.inserted_by),
            )

    def _attributes(self, event: SnapshotEvent) -> Facts:
        facts = facts_of(event, self._hash_session)
        return {name if name == SESSION_HASH else PREFIX + name: value for name, value in facts.items()}


@dataclass(frozen=True, slots=True)
class _Pen:
    """Draws finished spans; `shift_nanoseconds` takes the events' clock to Unix time."""

    tracer: Tracer
    shift_nanoseconds: int

    def draw(
        self,
        name: str,
        times: tuple[float, float],
        within: Context,
        attributes: Facts,
        *,
        links: Sequence[Link] = (),
        error: str | None = None,
    ) -> Span:
        """A span that began and ended at `times`; one with an `error` is marked as failed."""
        started, ended = times
        span = self.tracer.start_span(
            name,
            context=within,
            attributes=attributes,
            links=links,
            start_time=self.shift_nanoseconds + _nanoseconds(started),
        )
        if error is not None:
            span.set_status(Status(StatusCode.ERROR, error))
        span.end(self.shift_nanoseconds + _nanoseconds(ended))
        return span


def _capture(sealed: PayloadSealed, pen: _Pen) -> None:
    attributes: Facts = {PREFIX + "origin": sealed.origin.value, PREFIX + "tokens": sealed.tokens}
    if sealed.nbytes is None:
        attributes[PREFIX + "outcome"] = Rejection.UNSUPPORTED.value
    else:
        attributes[PREFIX + "bytes"] = sealed.nbytes
    pen.draw("snapshot.capture", (sealed.started, sealed.ended), _inside(sealed.cause), attributes)


def _restore(restored: PayloadRestored, pen: _Pen) -> None:
    attributes: Facts = {PREFIX + "tokens": restored.tokens, PREFIX + "bytes": restored.nbytes}
    times = (restored.started, restored.ended)
    pen.draw("snapshot.restore", times, _inside(restored.cause), attributes, error=restored.error)


def _warmup(warmed: WarmupEnded, pen: _Pen) -> None:
    """A span of what was run; the restore, the capture and the insert in it stand beside it."""
    if warmed.started is None:
        return
    attributes: Facts = {
        PREFIX + "outcome": warmed.outcome.value,
        PREFIX + "tokens": warmed.tokens,
        PREFIX + "computed_tokens": warmed.computed_tokens,
    }
    pen.draw("snapshot.warmup", (warmed.started, warmed.ended), _inside(warmed.cause), attributes)


def _stages(ended: GenerationEnded, pen: _Pen) -> None:
    """One span a stage that began; the last one says how it all ended."""
    if ended.cause is None:
        return
    tokens: dict[str, Facts] = {
        "prefill": {
            "samovar.prefill.tokens": ended.prompt_tokens - ended.cached_tokens,
            "samovar.prefill.cached_tokens": ended.cached_tokens,
        },
        "decode": {
            "samovar.decode.tokens": ended.generated_tokens,
            "gen_ai.usage.cache_creation.input_tokens": ended.stored_tokens,
        },
    }
    within = _inside(ended.cause)
    *before, last = stages_of(ended)
    for stage in before:
        pen.draw(stage.name, (stage.began, stage.ended), within, tokens.get(stage.name, {}))
    attributes = {**tokens.get(last.name, {}), "samovar.finish_reason": ended.reason.value}
    error = ended.error or "" if ended.reason is FinishReason.ERROR else None
    pen.draw(last.name, (last.began, last.ended), within, attributes, error=error)


def _summary(removals: Sequence[SnapshotRemoved]) -> Facts:
    reasons = Counter(removal.reason.value for removal in removals)
    return {
        PREFIX + "removals": len(removals),
        PREFIX + "bytes": sum(removal.entry.nbytes for removal in removals),
        PREFIX + "self_evictions": sum(removal.self_eviction for removal in removals),
        **{f"{PREFIX}removals.{reason}": count for reason, count in reasons.items()},
    }


def _inside(cause: TraceRef | None) -> Context:
    """The context under `cause`; an empty one, not the ambient one, where there is no cause."""
    if cause is None:
        return Context()
    return set_span_in_context(NonRecordingSpan(span_context(cause)), Context())


def _links(ref: TraceRef | None) -> tuple[Link, ...]:
    return () if ref is None else (Link(span_context(ref)),)


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)
