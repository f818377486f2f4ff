"""The tracer provider, its sampling and its exporters."""

import pytest
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import get_tracer_provider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from app.events import TraceRef
from app.telemetry.span_queue import SpanQueue
from app.telemetry.tracing import build_tracer_provider, otlp_exporter, span_context
from tests.telemetry.collectors import grpc_collector, http_collector

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
SAMPLED = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
UNSAMPLED = {"traceparent": f"00-{TRACE}-{PARENT}-00"}
RESOURCE = Resource({"service.name": "my server", "service.version": "1.2.3"})


def incoming(headers: dict[str, str]) -> Context:
    """The context of a request with these headers."""
    return TraceContextTextMapPropagator().extract(headers, Context())


def provider(sample_ratio: float, exporter: InMemorySpanExporter | None):
    return build_tracer_provider(
        resource=RESOURCE,
        sample_ratio=sample_ratio,
        processor=None if exporter is None else SimpleSpanProcessor(exporter),
    )


@pytest.mark.parametrize(
    ("protocol", "collector"), [("http/protobuf", http_collector), ("grpc", grpc_collector)]
)
def test_a_collector_gets_the_spans(protocol, collector):
    """Spans arrive at a real receiver of each protocol, under the service's name and version."""
    with collector() as received:
        queue = SpanQueue(otlp_exporter(received.endpoint, protocol))
        traced = build_tracer_provider(resource=RESOURCE, sample_ratio=1.0, processor=queue)
        for name in ("one", "two"):
            traced.get_tracer("test").start_span(name).end()
        traced.shutdown()
    assert sorted(received.span_names) == ["one", "two"]
    assert queue.dropped() == {"traces": 0}
    resource = {each.key: each.value.string_value for each in received.resource_spans[0].resource.attributes}
    assert (resource["service.name"], resource["service.version"]) == ("my server", "1.2.3")


@pytest.mark.parametrize(
    ("path", "expected"), [("", "/v1/traces"), ("/", "/v1/traces"), ("/otlp/in", "/otlp/in")]
)
def test_an_address_without_a_path_gets_the_standard_one(path, expected):
    """A collector's base address is enough; a path that somebody wrote is kept."""
    with http_collector() as received:
        queue = SpanQueue(otlp_exporter(received.endpoint + path, "http/protobuf"))
        traced = build_tracer_provider(resource=RESOURCE, sample_ratio=1.0, processor=queue)
        traced.get_tracer("test").start_span("one").end()
        traced.shutdown()
    assert received.paths == [expected]


@pytest.mark.parametrize(
    ("headers", "ratio", "recorded"),
    [(SAMPLED, 0.0, True), (UNSAMPLED, 1.0, False), ({}, 1.0, True), ({}, 0.0, False)],
)
def test_a_caller_that_decided_is_followed(headers, ratio, recorded):
    """The ratio decides for traces that begin here; a caller's sampled flag decides for its own."""
    exporter = InMemorySpanExporter()
    tracer = provider(ratio, exporter).get_tracer("test")
    tracer.start_span("request", context=incoming(headers)).end()
    assert len(exporter.get_finished_spans()) == recorded


def test_without_a_processor_nothing_is_recorded():
    """With nowhere to send spans, none is made, whatever the caller decided."""
    span = provider(1.0, None).get_tracer("test").start_span("request", context=incoming(SAMPLED))
    assert not span.is_recording()
    assert span.get_span_context().trace_id == int(TRACE, 16)
    assert not span.get_span_context().trace_flags.sampled


def test_the_global_provider_is_left_alone():
    """Two servers in one process do not see each other's spans."""
    before = get_tracer_provider()
    assert provider(1.0, InMemorySpanExporter()) is not get_tracer_provider()
    assert get_tracer_provider() is before


@pytest.mark.parametrize("sampled", [True, False])
def test_a_trace_ref_is_a_span_by_its_numbers(sampled):
    """Numbers, sampled flag and locality survive the way through the core."""
    context = span_context(TraceRef(7, 9, sampled=sampled))
    assert (context.trace_id, context.span_id, context.trace_flags.sampled) == (7, 9, sampled)
    assert not context.is_remote
