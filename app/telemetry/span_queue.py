"""Keeps ended spans for export within a bound, and counts each one lost. Never blocks who ends a span."""

import logging
import threading
from collections.abc import Mapping, Sequence

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from app.telemetry.label_values import Sink

MAX_BATCH_SPANS = 512

log = logging.getLogger(__name__)


class SpanQueue(SpanProcessor):
    """A batch processor that refuses a span when it is full; the SDK's own would drop an older one uncounted.

    Invariant: the SDK's queue never holds more than the ledger says are waiting, and both have the same
    bound, so the SDK's never overflows.

    Args:
        exporter: where spans go, on a thread of the SDK.
        max_spans: most spans that wait.
        export_interval_seconds: how long a span waits for its batch to fill up.
        flush_seconds: how long `shutdown` lets the exporter go on before it closes it.
    """

    def __init__(
        self,
        exporter: SpanExporter,
        *,
        max_spans: int = 4096,
        export_interval_seconds: float = 2.0,
        flush_seconds: float = 5.0,
    ) -> None:
        self._flush_seconds = flush_seconds
        self._ledger = _Ledger(max_spans)
        self._exporter = _CountedExporter(exporter, self._ledger)
        self._batches: SpanProcessor = BatchSpanProcessor(
            self._exporter,
            max_queue_size=max_spans,
            schedule_delay_millis=export_interval_seconds * 1000,
            max_export_batch_size=min(MAX_BATCH_SPANS, max_spans),
        )

    def dropped(self) -> Mapping[str, int]:
        """Sink name → spans lost so far: the queue was full, the export failed, or the server stopped."""
        return {Sink.TRACES.value: self._ledger.lost}

    def on_end(self, span: ReadableSpan) -> None:
        """Queue a sampled span, or count it as lost."""
        if span.context is not None and span.context.trace_flags.sampled and self._ledger.admit():
            self._batches.on_end(span)

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Export what waits now; returns when that has been tried."""
        return self._batches.force_flush(timeout_millis)

    def shutdown(self) -> None:
        """Export what waits, count what could not be sent, refuse what comes later. May be called twice."""
        if not self._ledger.close():
            return
        # An exporter retries for longer than an orderly stop may take; closing it is what ends its wait.
        deadline = threading.Timer(self._flush_seconds, self._exporter.shutdown)
        deadline.daemon = True
        deadline.start()
        self._batches.shutdown()
        deadline.cancel()
        self._ledger.hand_over(waiting := self._ledger.waiting)
        self._ledger.lose(waiting)
        if self._ledger.lost:
            log.warning("%d spans were lost, %d of them at the stop", self._ledger.lost, waiting)


class _Ledger:
    """Where every sampled span is: waiting, handed to the exporter, or lost."""

    def __init__(self, max_waiting: int) -> None:
        self._max_waiting = max_waiting
        self._lock = threading.Lock()
        self._open = True
        self.waiting = 0
        self.lost = 0

    def admit(self) -> bool:
        with self._lock:
            if self._open and self.waiting < self._max_waiting:
                self.waiting += 1
                return True
            self.lost += 1
            return False

    def hand_over(self, spans: int) -> None:
        with self._lock:
            self.waiting -= spans

    def lose(self, spans: int) -> None:
        with self._lock:
            self.lost += spans

    def close(self) -> bool:
        """Admit no more; False if that was so before."""
        with self._lock:
            was_open, self._open = self._open, False
            return was_open


class _CountedExporter(SpanExporter):
    """An exporter whose failures are counted, and that may be closed twice, by deadline and by the SDK."""

    def __init__(self, exporter: SpanExporter, ledger: _Ledger) -> None:
        self._exporter = exporter
        self._ledger = ledger
        self._closed = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self._ledger.hand_over(len(spans))
        result = SpanExportResult.FAILURE
        try:
            if not self._closed.is_set():
                result = self._exporter.export(spans)
        finally:
            if result is not SpanExportResult.SUCCESS:
                self._ledger.lose(len(spans))
        return result

    def shutdown(self) -> None:
        if not self._closed.is_set():
            self._closed.set()
            self._exporter.shutdown()
