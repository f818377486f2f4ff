"""Real OTLP receivers on a loopback port, one a protocol; one that hangs, and a port where nobody listens."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Event, Thread
from typing import Self

import grpc  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans


@dataclass
class Received:
    """Where to send to, and what came in."""

    endpoint: str
    paths: list[str] = field(default_factory=list)
    batches: list[ExportTraceServiceRequest] = field(default_factory=list)

    @property
    def resource_spans(self) -> list[ResourceSpans]:
        return [each for batch in self.batches for each in batch.resource_spans]

    @property
    def span_names(self) -> list[str]:
        return [
            span.name for each in self.resource_spans for scope in each.scope_spans for span in scope.spans
        ]


@contextmanager
def http_collector() -> Iterator[Received]:
    """Takes OTLP over HTTP."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.paths.append(self.path)
            received.batches.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(ExportTraceServiceResponse().SerializeToString())

        def log_message(self, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        received = Received(f"http://127.0.0.1:{server.server_port}")
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield received
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def grpc_collector() -> Iterator[Received]:
    """Takes OTLP over gRPC."""

    class Service(TraceServiceServicer):
        def Export(  # noqa: N802 - the name is gRPC's
            self, request: ExportTraceServiceRequest, context: grpc.ServicerContext
        ) -> ExportTraceServiceResponse:
            received.batches.append(request)
            return ExportTraceServiceResponse()

    server = grpc.server(ThreadPoolExecutor(max_workers=1))
    add_TraceServiceServicer_to_server(Service(), server)
    received = Received(f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")
    server.start()
    try:
        yield received
    finally:
        server.stop(None).wait()


@contextmanager
def nobody() -> Iterator[Received]:
    """A port that refuses every connection: bound, so that nobody else gets it, but not listening."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield Received(f"http://127.0.0.1:{bound.getsockname()[1]}")


class HungCollector:
    """Takes every connection, reads nothing, and never answers."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self.reached = Event()
        """Set once somebody has connected."""
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._closing = False
        self._thread = Thread(target=self._accept)

    def _accept(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            if self._closing:
                connection.close()
                return
            self._connections.append(connection)
            self.reached.set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._closing = True
        socket.create_connection(self._listener.getsockname()).close()
        self._thread.join()
        for each in (*self._connections, self._listener):
            each.close()
