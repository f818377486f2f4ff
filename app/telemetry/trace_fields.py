"""How a log line names the trace it belongs to, where that is not the span that runs. Knows no event."""

from opentelemetry.trace import format_span_id, format_trace_id

from app.events import TraceRef
from app.telemetry.snapshot_facts import Facts


def trace_fields(cause: TraceRef | None) -> Facts:
    """The ids as OTLP and trace backends write them, in hexadecimal; nothing where there is no trace."""
    if cause is None:
        return {}
    return {"trace_id": format_trace_id(cause.trace_id), "span_id": format_span_id(cause.span_id)}
