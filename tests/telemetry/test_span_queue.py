"""What becomes of spans that cannot be sent."""

import logging
import threading
from collections.abc import Sequence

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from app.telemetry.span_queue import SpanQueue
from app.telemetry.tracing import build_tracer_provider, otlp_exporter
from tests.telemetry.collectors import HungCollector, nobody

NEVER_SECONDS = 3600.0


def end_spans(queue: SpanQueue, count: int, *, sample_ratio: float = 1.0) -> None:
    """End spans of a provider that sends to `queue`."""
    traced = build_tracer_provider(resource=Resource.get_empty(), sample_ratio=sample_ratio, processor=queue)
    for n in range(count):
        traced.get_tracer("test").start_span(f"span {n}").end()


class Held(SpanExporter):
    """Takes a batch and keeps the exporting thread until it is let go."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.go_on = threading.Event()
        self.exported = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.began.set()
        assert self.go_on.wait(60)
        self.exported += len(spans)
        return SpanExportResult.SUCCESS


def test_a_full_queue_drops_and_counts_and_never_waits():
    """With the exporter stuck, the queue takes its bound and counts the rest; who ends a span goes on."""
    exporter = Held()
    queue = SpanQueue(exporter, max_spans=4, export_interval_seconds=NEVER_SECONDS)
    end_spans(queue, 4)
    assert exporter.began.wait(60)
    end_spans(queue, 4)
    assert queue.dropped() == {"traces": 0}
    end_spans(queue, 3)
    assert queue.dropped() == {"traces": 3}
    exporter.go_on.set()
    queue.shutdown()
    assert exporter.exported == 8
    assert queue.dropped() == {"traces": 3}


class Refusing(SpanExporter):
    """Fails in the way it is told."""

    def __init__(self, failure: Exception | None) -> None:
        self.failure = failure

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if self.failure is not None:
            raise self.failure
        return SpanExportResult.FAILURE


@pytest.mark.parametrize("failure", [None, ConnectionError("gone")], ids=["says so", "raises"])
def test_a_batch_that_cannot_be_exported_is_lost_and_counted(failure):
    """An exporter that fails, in either way, costs its batch and nothing else."""
    queue = SpanQueue(Refusing(failure))
    end_spans(queue, 5)
    queue.force_flush()
    assert queue.dropped() == {"traces": 5}
    queue.shutdown()
    assert queue.dropped() == {"traces": 5}


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_a_collector_that_is_down_costs_spans_only(protocol, caplog):
    """With the endpoint refused, ending spans works, the stop comes to its end, and every span is counted."""
    with nobody() as refused, caplog.at_level(logging.WARNING):
        queue = SpanQueue(otlp_exporter(refused.endpoint, protocol), flush_seconds=0.2)
        end_spans(queue, 700)
        queue.shutdown()
    assert queue.dropped() == {"traces": 700}
    assert any("700 spans were lost" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_a_collector_that_hangs_costs_a_bounded_memory(protocol):
    """While an export gets no answer, no more than the bound waits; every other span is counted as lost."""
    with HungCollector() as hung:
        queue = SpanQueue(
            otlp_exporter(hung.endpoint, protocol, timeout_seconds=0.5),
            max_spans=64,
            export_interval_seconds=0.01,
            flush_seconds=0.2,
        )
        end_spans(queue, 64)
        assert hung.reached.wait(60)
        end_spans(queue, 5000)
        lost = queue.dropped()["traces"]
        # What is with the exporter has left the queue, so that another 64 fit.
        assert 5064 - 2 * 64 <= lost <= 5064
        assert queue._ledger.waiting <= 64
        queue.shutdown()
    assert queue.dropped() == {"traces": 5064}


def test_what_waits_is_sent_at_the_stop():
    """A stop does not wait for the interval, and loses nothing."""
    exporter = InMemorySpanExporter()
    queue = SpanQueue(exporter, export_interval_seconds=NEVER_SECONDS)
    end_spans(queue, 5)
    assert exporter.get_finished_spans() == ()
    queue.shutdown()
    assert len(exporter.get_finished_spans()) == 5
    assert queue.dropped() == {"traces": 0}


class Endless(SpanExporter):
    """Does not come back from an export until it is closed."""

    def __init__(self) -> None:
        self.closed = threading.Event()
        self.closed_by: list[threading.Thread] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        assert self.closed.wait(60)
        return SpanExportResult.FAILURE

    def shutdown(self) -> None:
        self.closed_by.append(threading.current_thread())
        self.closed.set()


def test_an_export_that_does_not_end_is_ended():
    """At the deadline the exporter is closed, once, by other than the thread that waits for it."""
    exporter = Endless()
    queue = SpanQueue(exporter, flush_seconds=0.05)
    end_spans(queue, 3)
    queue.shutdown()
    (closed_by,) = exporter.closed_by
    assert closed_by is not threading.current_thread()
    assert queue.dropped() == {"traces": 3}


def test_a_span_after_the_stop_is_counted():
    """A late span is lost, and said to be; stopping again changes nothing."""
    exporter = InMemorySpanExporter()
    queue = SpanQueue(exporter)
    queue.shutdown()
    end_spans(queue, 2)
    queue.shutdown()
    assert exporter.get_finished_spans() == ()
    assert queue.dropped() == {"traces": 2}


def test_an_unsampled_span_is_no_loss():
    """What was not to be recorded is neither sent nor counted."""
    exporter = InMemorySpanExporter()
    queue = SpanQueue(exporter)
    end_spans(queue, 2, sample_ratio=0.0)
    queue.shutdown()
    assert exporter.get_finished_spans() == ()
    assert queue.dropped() == {"traces": 0}
