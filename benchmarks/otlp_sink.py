"""A process that takes spans by OTLP over HTTP and counts them: `python -m benchmarks.otlp_sink PORT`.

It parses what it gets, as a collector does; `GET /` says how many spans that was.
"""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Sink(BaseHTTPRequestHandler):
    """One export, or the question how many spans there were."""

    protocol_version = "HTTP/1.1"
    spans = 0

    def do_POST(self) -> None:
        """Count the spans of an export."""
        export = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["content-length"])))
        Sink.spans += sum(len(scope.spans) for each in export.resource_spans for scope in each.scope_spans)
        self._answer(b"", "application/x-protobuf")

    def do_GET(self) -> None:
        """Say the count."""
        self._answer(str(Sink.spans).encode(), "text/plain")

    def log_message(self, *_args: object) -> None:
        """Say nothing."""

    def _answer(self, body: bytes, content_type: str) -> None:
        self.send_response(200)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Sink).serve_forever()
