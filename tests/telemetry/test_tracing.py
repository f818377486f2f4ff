import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import INVALID_SPAN, get_current_span, get_tracer_provider

from app.events import TraceRef
from app.telemetry.span_queue import SpanQueue
from app.telemetry.tracing import (
    build_tracer_provider,
    incoming_context,
    otlp_exporter,
    span_context,
    trace_ref,
)
from tests.telemetry.collectors import grpc_collector, http_collector

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
SAMPLED = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
UNSAMPLED = {"traceparent": f"00-{TRACE}-{PARENT}-00"}


def provider(sample_ratio: float, exporter: InMemorySpanExporter | None):
    return build_tracer_provider(
        service_name="my server",
        version="1.2.3",
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
        traced = build_tracer_provider(
            service_name="my server", version="1.2.3", sample_ratio=1.0, processor=queue
        )
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
        traced = build_tracer_provider(service_name="s", version="1", sample_ratio=1.0, processor=queue)
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
    tracer.start_span("request", context=incoming_context(headers)).end()
    assert len(exporter.get_finished_spans()) == recorded


def test_without_a_processor_nothing_is_recorded():
    """With nowhere to send spans, none is made, whatever the caller decided."""
    span = provider(1.0, None).get_tracer("test").start_span("request", context=incoming_context(SAMPLED))
    assert not span.is_recording()
    ref = trace_ref(span)
    assert ref is not None
    assert ref.trace_id == int(TRACE, 16)
    assert not ref.sampled


def test_the_global_provider_is_left_alone():
    """Two servers in one process do not see each other's spans."""
    before = get_tracer_provider()
    assert provider(1.0, InMemorySpanExporter()) is not get_tracer_provider()
    assert get_tracer_provider() is before


def test_a_request_continues_its_callers_trace():
    """The traceparent header makes the caller's span the parent."""
    tracer = provider(1.0, InMemorySpanExporter()).get_tracer("test")
    span = tracer.start_span("request", context=incoming_context(SAMPLED))
    assert span.parent.span_id == int(PARENT, 16)
    assert trace_ref(span) == TraceRef(int(TRACE, 16), span.get_span_context().span_id, sampled=True)


@pytest.mark.parametrize(
    "headers", [{}, {"traceparent": "nonsense"}, {"traceparent": f"00-{'0' * 32}-{PARENT}-01"}]
)
def test_a_request_without_a_usable_trace_begins_one(headers):
    """No header, or one that makes no sense, is an empty context and never an error."""
    assert get_current_span(incoming_context(headers)) is INVALID_SPAN


@pytest.mark.parametrize("sampled", [True, False])
def test_a_trace_ref_is_a_span_by_its_numbers(sampled):
    """Numbers, sampled flag and locality survive the way through the core."""
    context = span_context(TraceRef(7, 9, sampled=sampled))
    assert (context.trace_id, context.span_id, context.trace_flags.sampled) == (7, 9, sampled)
    assert not context.is_remote


def test_no_trace_is_no_ref():
    """Where there is no span there is nothing to carry."""
    assert trace_ref(INVALID_SPAN) is None
