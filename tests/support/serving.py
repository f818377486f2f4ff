"""The real application on a real Granian listener, over an engine that a test scripts."""

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from app.api.application import create_app
from app.api.services import Limits, Services
from app.api.stream import LoopSink, OpenRequests
from app.clock import monotonic
from app.events import Event, RequestEnded
from app.listener import Listener, reserve_address, url_of
from tests.support.scripted_engine import WAIT_SECONDS, CharacterModel, ScriptedEngine

MAX_REQUEST_BYTES = 64 * 1024


@dataclass
class Serving:
    """A listening application, and everything a test may look at."""

    url: str
    model: CharacterModel
    engine: ScriptedEngine
    sink: LoopSink
    requests: OpenRequests
    client: httpx.AsyncClient
    events: list[Event]
    spans: InMemorySpanExporter

    async def post(self, **body: Any) -> httpx.Response:
        """One chat request; `messages` is a greeting unless given."""
        return await self.client.post("/v1/chat/completions", json=chat_body(**body))

    async def answered(self, text: str, **body: Any) -> httpx.Response:
        """One chat request that the engine answers with `text`."""
        response, _ = await asyncio.gather(self.post(**body), self.engine.answer(text))
        return response

    async def ended(self, count: int = 1) -> list[RequestEnded]:
        """The events of inference requests, once there are `count` of them and none is open."""
        async with asyncio.timeout(WAIT_SECONDS):
            await self.requests.none_left()
        ended = [event for event in self.events if isinstance(event, RequestEnded)]
        assert len(ended) == count
        return ended

    def span(self, name: str) -> ReadableSpan:
        """The one finished span of that name."""
        (span,) = (span for span in self.spans.get_finished_spans() if span.name == name)
        return span


@contextlib.asynccontextmanager
async def serving(
    *,
    model: CharacterModel | None = None,
    loading: bool = False,
    metrics: bool = True,
    keepalive_seconds: float = 60.0,
    request_seconds: float = 60.0,
    write_seconds: float = 60.0,
    default_max_tokens: int | None = None,
    max_lag_deltas: int = 1_000_000,
) -> AsyncIterator[Serving]:
    """Serve for a block. Every limit is far away unless a test brings it near."""
    sink = LoopSink(asyncio.get_running_loop(), max_lag_deltas=max_lag_deltas)
    model = model or CharacterModel()
    engine = ScriptedEngine(sink, None if loading else model)
    requests = OpenRequests()
    events: list[Event] = []
    spans = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(spans))
    ids = itertools.count(1)
    app = create_app(
        Services(
            engine=engine,
            sink=sink,
            requests=requests,
            emit=events.append,
            tracer=provider.get_tracer("tests"),
            clock=monotonic,
            unix_seconds=lambda: 1_800_000_000.5,
            new_id=lambda: f"{next(ids):08d}",
            metrics=(lambda accept: (f"accepted {accept}\n".encode(), "text/x-metrics")) if metrics else None,
            cache_stats=lambda: {"snapshot_entries": 7},
            limits=Limits(
                max_request_bytes=MAX_REQUEST_BYTES,
                request_seconds=request_seconds,
                keepalive_seconds=keepalive_seconds,
                write_seconds=write_seconds,
                default_max_tokens=default_max_tokens,
            ),
            version="1.2.3",
        )
    )
    address = reserve_address("127.0.0.1", 0)
    url = url_of(address)
    async with (
        Listener(app, address, connections=256),
        httpx.AsyncClient(base_url=url, timeout=WAIT_SECONDS) as client,
    ):
        yield Serving(url, model, engine, sink, requests, client, events, spans)


def chat_body(**fields: Any) -> dict[str, Any]:
    """A chat request; `messages` is a greeting unless given."""
    return {"messages": [{"role": "user", "content": "Hello"}], **fields}


class RawClient:
    """A client with its hands on the socket: it can stop reading, and leave when it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, url: str) -> "RawClient":
        """Connect to a server's URL."""
        host, _, port = url.removeprefix("http://").rpartition(":")
        # A small limit: beyond it asyncio stops reading the socket, as a client does that does not read.
        return cls(*await asyncio.open_connection(host, int(port), limit=1024))

    async def post(self, **fields: Any) -> None:
        """Send one chat request and read nothing."""
        body = json.dumps(chat_body(**fields)).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: test\r\ncontent-length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        await self._writer.drain()

    async def read_until(self, text: bytes) -> bytes:
        """Everything up to and with `text`."""
        return await asyncio.wait_for(self._reader.readuntil(text), WAIT_SECONDS)

    async def read_to_end(self) -> bytes:
        """Everything until the server closes."""
        return await asyncio.wait_for(self._reader.read(), WAIT_SECONDS)

    async def close(self) -> None:
        """Close the socket as one does who has read everything."""
        self._writer.close()
        await self._writer.wait_closed()

    async def leave(self) -> None:
        """Drop the connection, whatever is still on it."""
        self._writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()
