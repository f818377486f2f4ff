"""A collector that keeps the spans it is sent: OTLP over HTTP, as the protocol's own messages."""

import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class OtlpReceiver:
    """Listens on a free port of the loopback for as long as the block lasts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spans: list[Span] = []
        self.resource: dict[str, AttributeValue] = {}
        """What the last export said of the process it came from."""
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.take(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def endpoint(self) -> str:
        """What `telemetry.otlp_endpoint` is set to."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def take(self, request: ExportTraceServiceRequest) -> None:
        """Keep the spans of one export."""
        with self._lock:
            for resource in request.resource_spans:
                self.resource = attributes_of(resource.resource)
                for scope in resource.scope_spans:
                    self._spans.extend(scope.spans)

    @property
    def spans(self) -> list[Span]:
        """All spans so far."""
        with self._lock:
            return list(self._spans)

    def named(self, name: str) -> list[Span]:
        """The spans of one name."""
        return [span for span in self.spans if span.name == name]

    def counts(self) -> Counter[str]:
        """Spans by name."""
        return Counter(span.name for span in self.spans)


AttributeValue = str | int | float | bool


def attributes_of(span: Span | Resource) -> dict[str, AttributeValue]:
    """A span's or a resource's attributes as Python values; a list is still the protocol's own message."""
    return {
        each.key: getattr(each.value, each.value.WhichOneof("value") or "string_value")
        for each in span.attributes
    }
