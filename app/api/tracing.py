"""Spans of a request: one for HTTP, one for the generation in it. Carries no text of prompts or replies."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import cast

from litestar.types import ASGIApp, HTTPResponseStartEvent, HTTPScope, Receive, Scope, Send
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, format_span_id, format_trace_id
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from app.api.reply import Reply
from app.api.response_start import SeeingStart
from app.clock import Clock
from app.events import TraceRef
from app.scheduler.job import Job, Sampling

PROVIDER = "samovar"


class TraceRequests:
    """Middleware: a SERVER span around each request of a route, in the trace its caller began.

    Names and attributes are the stable HTTP conventions of OpenTelemetry. The response names the span where
    it is recorded, in the `traceresponse` header of W3C Trace Context Level 2.
    """

    def __init__(self, app: ASGIApp, tracer: Tracer, clock: Clock) -> None:
        self._app = app
        self._tracer = tracer
        self._clock = clock
        self._propagator = TraceContextTextMapPropagator()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = cast("HTTPScope", scope)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        route = scope["path_template"]
        with _current_span(
            self._tracer,
            f"{request['method']} {route}",
            clock=self._clock,
            context=self._propagator.extract(headers),
            kind=SpanKind.SERVER,
            attributes=_request_attributes(request, route, headers),
        ) as span:

            def note_status(start: HTTPResponseStartEvent) -> None:
                _set_status(span, start["status"])
                if response := _traceresponse(span):
                    start["headers"] = [*start["headers"], (b"traceresponse", response)]

            await self._app(scope, receive, SeeingStart(send, note_status))


@contextlib.contextmanager
def generation_span(
    tracer: Tracer, *, clock: Clock, operation: str, asked: str, served: str, stream: bool = False
) -> Iterator[Span]:
    """The span of one generation, by the GenAI conventions of OpenTelemetry.

    Args:
        tracer: makes it.
        clock: monotonic seconds.
        operation: `chat` or `text_completion`.
        asked: the model by the name that the client used.
        served: the model by its own name.
        stream: whether the reply is sent as it grows.
    """
    with _current_span(
        tracer,
        f"{operation} {served}",
        clock=clock,
        attributes={
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": PROVIDER,
            "gen_ai.request.model": asked,
            "gen_ai.request.stream": stream,
            "gen_ai.response.model": served,
        },
    ) as span:
        yield span


@contextlib.contextmanager
def _current_span(
    tracer: Tracer,
    name: str,
    *,
    clock: Clock,
    context: Context | None = None,
    kind: SpanKind = SpanKind.INTERNAL,
    attributes: Mapping[str, str | int | bool],
) -> Iterator[Span]:
    """A span that is current for a block, and as long as the block took by `clock`.

    The SDK takes both ends from the wall clock. Where that is set back in between, a span would end before it
    began, and whoever reads its length as a number without a sign sees centuries.
    """
    with tracer.start_as_current_span(
        name,
        context=context,
        kind=kind,
        attributes=attributes,
        # A refused request is an answer, not a fault of the server: the status code decides.
        record_exception=False,
        set_status_on_exception=False,
        end_on_exit=False,
    ) as span:
        began = clock()
        try:
            yield span
        finally:
            if isinstance(span, ReadableSpan) and span.start_time is not None:
                span.end(span.start_time + round((clock() - began) * 1e9))


def trace_ref(span: Span) -> TraceRef | None:
    """The span by its numbers; None where there is no trace."""
    context = span.get_span_context()
    if not context.is_valid:
        return None
    return TraceRef(context.trace_id, context.span_id, context.trace_flags.sampled)


def note_job(span: Span, job: Job) -> None:
    """Set what was asked of the engine."""
    sampling: Sampling = job.sampling
    span.set_attributes(
        {
            "gen_ai.response.id": job.id,
            "gen_ai.request.max_tokens": job.max_tokens,
            "gen_ai.request.temperature": sampling.temperature,
            "gen_ai.request.top_p": sampling.top_p,
            # A number with a fraction by the convention.
            "gen_ai.request.top_k": float(sampling.top_k),
            "gen_ai.request.frequency_penalty": sampling.frequency_penalty,
            "gen_ai.request.presence_penalty": sampling.presence_penalty,
            "gen_ai.usage.input_tokens": len(job.tokens),
        }
    )
    if sampling.seed is not None:
        span.set_attribute("gen_ai.request.seed", sampling.seed)


def note_replies(span: Span, replies: Sequence[Reply]) -> None:
    """Set what came of it, complete or not. Input tokens include the cached ones, by the convention."""
    span.set_attribute("gen_ai.usage.output_tokens", sum(reply.generated_tokens for reply in replies))
    if (started := replies[0].started) is not None:
        span.set_attribute("gen_ai.usage.cache_read.input_tokens", started.cached_tokens)
    if reasons := tuple(str(reply.finish_reason) for reply in replies if reply.finish_reason is not None):
        span.set_attribute("gen_ai.response.finish_reasons", reasons)
    if failure := next((reply.failure for reply in replies if reply.failure is not None), None):
        span.set_attribute("error.type", str(failure.status))
        span.set_status(StatusCode.ERROR, failure.message)


def _request_attributes(scope: HTTPScope, route: str, headers: dict[str, str]) -> dict[str, str | int]:
    attributes: dict[str, str | int] = {
        "http.request.method": str(scope["method"]),
        "http.route": route,
        "url.path": scope["path"],
        "url.scheme": scope["scheme"],
        "network.protocol.version": scope["http_version"],
    }
    if client := scope["client"]:
        attributes["client.address"] = client[0]
    if server := scope["server"]:
        attributes["server.address"] = server[0]
        if server[1] is not None:
            # Granian gives it as text.
            attributes["server.port"] = int(server[1])
    if agent := headers.get("user-agent"):
        attributes["user_agent.original"] = agent
    return attributes


def _traceresponse(span: Span) -> bytes | None:
    context = span.get_span_context()
    if not span.is_recording():
        return None
    ids = format_trace_id(context.trace_id), format_span_id(context.span_id)
    return f"00-{ids[0]}-{ids[1]}-{context.trace_flags:02x}".encode()


def _set_status(span: Span, status: int) -> None:
    span.set_attribute("http.response.status_code", status)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        span.set_attribute("error.type", str(status))
        span.set_status(StatusCode.ERROR)
