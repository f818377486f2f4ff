"""Builds the tracer provider and its exporter from plain values. It knows no event.

Certificates and headers for a collector are read by the OTLP exporters themselves, from the standard
`OTEL_EXPORTER_OTLP_*` variables: secrets do not pass through our settings.
"""

from typing import Literal, assert_never
from urllib.parse import urlsplit, urlunsplit

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, TraceIdRatioBased
from opentelemetry.trace import SpanContext, TraceFlags

from app.events import TraceRef

Protocol = Literal["http/protobuf", "grpc"]

HTTP_TRACES_PATH = "/v1/traces"


def build_tracer_provider(
    *, resource: Resource, sample_ratio: float, processor: SpanProcessor | None
) -> TracerProvider:
    """A provider of its own, never the global one. Shut it down to flush.

    Args:
        resource: what every span says of this process.
        sample_ratio: share of traces recorded, 0 to 1, where the caller has not decided already.
        processor: where ended spans go. With None no span is recorded at all, and making one costs little.
    """
    sampler = ALWAYS_OFF if processor is None else ParentBased(TraceIdRatioBased(sample_ratio))
    provider = TracerProvider(
        sampler=sampler,
        resource=resource,
        # The wiring shuts it down at a known place of the drain; an exit hook would do it too late.
        shutdown_on_exit=False,
    )
    if processor is not None:
        provider.add_span_processor(processor)
    return provider


def otlp_exporter(endpoint: str, protocol: Protocol, *, timeout_seconds: float = 5.0) -> SpanExporter:
    """An exporter to a collector at `endpoint`, an http:// or https:// address; plain http is not encrypted.

    For `http/protobuf` an address without a path gets OTLP's `/v1/traces`; one with a path is used as it is.
    `timeout_seconds` bounds one batch, its retries included.
    """
    # Each exporter brings its own transport library, so only the one in use is loaded.
    match protocol:
        case "http/protobuf":
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 see above
                OTLPSpanExporter as HttpExporter,
            )

            return HttpExporter(_traces_address(endpoint), timeout=timeout_seconds)
        case "grpc":
            from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (  # noqa: PLC0415 see above
                OTLPSpanExporter as GrpcExporter,
            )

            return GrpcExporter(endpoint, timeout=timeout_seconds)
        case _:
            assert_never(protocol)


def span_context(ref: TraceRef) -> SpanContext:
    """A span of this process again, from its numbers."""
    flags = TraceFlags(TraceFlags.SAMPLED if ref.sampled else TraceFlags.DEFAULT)
    return SpanContext(ref.trace_id, ref.span_id, is_remote=False, trace_flags=flags)


def _traces_address(endpoint: str) -> str:
    parts = urlsplit(endpoint)
    return urlunsplit(parts._replace(path=HTTP_TRACES_PATH)) if parts.path in {"", "/"} else endpoint
