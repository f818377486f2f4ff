"""A request's spans are as long as it took, whatever becomes of the wall clock meanwhile."""

from types import SimpleNamespace
from typing import Any

import opentelemetry.sdk.trace
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from app.api.tracing import TraceRequests, generation_span

NOON = 1_800_000_000 * 10**9
HOUR = 3600 * 10**9


class Steady:
    """A clock that a test moves on."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The clock that the SDK reads."""
    clock = SimpleNamespace(nanoseconds=NOON)
    monkeypatch.setattr(opentelemetry.sdk.trace, "time_ns", lambda: clock.nanoseconds)
    return clock


@pytest.mark.parametrize("jump", [-8 * HOUR, 0, 8 * HOUR])
async def test_a_span_is_as_long_as_the_monotonic_clock_says(wall, jump):
    """The server's and the generation's: both begin when they did, and end two and a half seconds later."""
    steady = Steady()
    spans = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(spans))
    tracer = provider.get_tracer("tests")

    async def app(*_: Any) -> None:
        with generation_span(tracer, clock=steady, operation="chat", asked="m", served="m"):
            steady.seconds += 2.5
            wall.nanoseconds += jump

    scope: Any = {
        **dict.fromkeys(("client", "server")),
        "type": "http",
        "method": "POST",
        "path": "/x",
        "path_template": "/x",
        "headers": [],
        "http_version": "1.1",
        "scheme": "http",
    }
    nobody: Any = None
    await TraceRequests(app, tracer, steady)(scope, nobody, nobody)
    finished = spans.get_finished_spans()

    assert [span.name for span in finished] == ["chat m", "POST /x"]
    assert [(span.start_time, span.end_time) for span in finished] == [(NOON, NOON + 2_500_000_000)] * 2


async def test_a_request_that_raises_ends_its_span():
    """Without a status of its own: the answer that is made of the exception decides."""
    spans = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(spans))
    tracer = provider.get_tracer("tests")

    with (
        pytest.raises(ValueError, match="on purpose"),
        generation_span(tracer, clock=lambda: 0.0, operation="chat", asked="m", served="m"),
    ):
        raise ValueError("on purpose")

    (span,) = spans.get_finished_spans()
    assert span.status.is_unset
    assert not span.events
