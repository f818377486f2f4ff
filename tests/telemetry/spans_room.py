"""A real store whose events become real spans of a real provider, kept in memory."""

from collections.abc import Iterable, Sequence

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext

from app.bus import Bus, Listener
from app.events import Event, TraceRef
from app.snapshots.entry import pack
from app.snapshots.limits import Limits
from app.snapshots.stats import Tally
from app.snapshots.store import SnapshotStore
from app.telemetry.label_values import Sink
from app.telemetry.session_hash import SessionHash
from app.telemetry.spans import EventSpans
from app.telemetry.tracing import build_tracer_provider
from app.vocabulary import Origin
from tests.support.clock import ManualClock
from tests.support.snapshots import BUCKET, Block, limits
from tests.telemetry.generations import BEGAN

UNIX_START = 1_700_000_000 * 10**9
"""What the wall clock shows when the manual clock shows `CLOCK_START`."""

CLOCK_START = BEGAN

HASH_SESSION = SessionHash(b"a key of this test")


class SpansRoom:
    """What the wiring does for spans."""

    def __init__(
        self,
        store_limits: Limits | None = None,
        *,
        sample_ratio: float = 1.0,
        also: Sequence[tuple[str, Listener]] = (),
    ) -> None:
        self.exporter = InMemorySpanExporter()
        self.clock = ManualClock(CLOCK_START)
        self.slept_nanoseconds = 0
        self.hashed_sessions = 0
        self.provider = build_tracer_provider(
            resource=Resource.get_empty(),
            sample_ratio=sample_ratio,
            processor=SimpleSpanProcessor(self.exporter),
        )
        self.tracer = self.provider.get_tracer("test")
        self.tally = Tally()
        self.spans_of = EventSpans(
            self.tracer,
            hash_session=self.hash_session,
            clock=self.clock,
            unix_nanoseconds=self.unix_nanoseconds,
        )
        self.bus = Bus([(Sink.TALLY, self.tally), (Sink.TRACES, self.spans_of), *also])
        self.store: SnapshotStore[Block] = SnapshotStore(
            store_limits or limits(), clock=self.clock, emit=self.bus.publish
        )

    def hash_session(self, session: str) -> str:
        """As in production, but counted."""
        self.hashed_sessions += 1
        return HASH_SESSION(session)

    def unix_nanoseconds(self) -> int:
        """The wall clock, which went on while the machine slept."""
        return UNIX_START + round((self.clock() - CLOCK_START) * 1e9) + self.slept_nanoseconds

    def request(self) -> TraceRef:
        """The span of a request that is being served; it is not among the finished ones."""
        span = self.tracer.start_span("request").get_span_context()
        return TraceRef(span.trace_id, span.span_id, span.trace_flags.sampled)

    def put(
        self,
        *tokens: int,
        session: str | None = "s",
        origin: Origin = Origin.BOUNDARY,
        nbytes: int = 1,
        cause: TraceRef | None = None,
    ) -> None:
        """Insert a snapshot."""
        self.store.insert(
            bucket=BUCKET,
            session=session,
            origin=origin,
            tokens=pack(tokens),
            payload=Block(nbytes),
            cause=cause,
        )

    def look_up(self, *tokens: int, session: str = "s", cause: TraceRef | None = None) -> None:
        """Find, and conclude as an engine does whose restores always work."""
        found = self.store.find(bucket=BUCKET, session=session, tokens=pack(tokens))
        if found.candidates:
            self.store.hit(found, found.candidates[0], cause=cause)
        else:
            self.store.miss(found, cause=cause)

    def hear(self, *events: Event) -> None:
        """Publish events that are not the store's."""
        for event in events:
            self.bus.publish(event)

    def take(self) -> tuple[ReadableSpan, ...]:
        """The spans finished since the last call."""
        assert not any(self.bus.failures().values())
        spans = self.exporter.get_finished_spans()
        self.exporter.clear()
        return spans


def named(spans: Iterable[ReadableSpan], name: str) -> ReadableSpan:
    """The one span of that name."""
    (span,) = (span for span in spans if span.name == name)
    return span


def names(spans: Iterable[ReadableSpan]) -> list[str]:
    """Names in the order in which the spans were made."""
    return [span.name for span in spans]


def context_of(span: ReadableSpan) -> SpanContext:
    """The span's own numbers."""
    context: SpanContext | None = span.context
    assert context is not None
    return context


def is_child(span: ReadableSpan, parent: ReadableSpan | TraceRef) -> bool:
    """Whether `parent` is the direct parent, in the same trace."""
    above = parent if isinstance(parent, TraceRef) else context_of(parent)
    return (
        span.parent is not None
        and span.parent.span_id == above.span_id
        and context_of(span).trace_id == above.trace_id
    )


def attributes(span: ReadableSpan) -> dict[str, object]:
    """Attributes under their short names."""
    return {key.removeprefix("samovar.snapshot."): value for key, value in (span.attributes or {}).items()}
