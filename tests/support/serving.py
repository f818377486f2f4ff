"""The real application on a real Granian listener, over an engine that a test scripts."""

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import httpx
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from app.api.application import create_app
from app.api.page.facts import RecentRequest, SnapshotFill
from app.api.reasoning_echo import ReasoningEcho
from app.api.services import Limits, Services
from app.api.settling import SETTLE_SECONDS, Settling
from app.api.stream import LoopSink, OpenRequests
from app.auth.keyring import Keyring
from app.clock import Clock, monotonic
from app.events import Event, RequestEnded
from app.listener import listening, reserve_address, url_of
from app.snapshots.limits import Limits as StoreLimits
from app.snapshots.stats import Tally, stats_payload, tenant_payload
from tests.support.scripted_engine import WAIT_SECONDS, CharacterModel, ScriptedEngine

MAX_REQUEST_BYTES = 64 * 1024

FILL = SnapshotFill(
    enabled=True, entries=7, bytes=3 * 2**30, capacity_bytes=4 * 2**30, recommended_bytes=6 * 2**30
)


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
    sockets: "RawClients"

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


def cache_numbers(tenant: str | None) -> Mapping[str, Any]:
    """The numbers of a store that has done nothing yet."""
    reading = Tally().read(tenant)
    limits = StoreLimits(capacity_bytes=2**30, max_entries=7, ttl_seconds=None, min_prefix_tokens=1)
    if tenant is None:
        return stats_payload(reading, limits, now=0.0)
    return {"tenant": tenant, **tenant_payload(reading, limits, quota=None)}


def echo_accept(accept: str) -> tuple[bytes, str]:
    """Metrics that say what was asked for."""
    return f"accepted {accept}\n".encode(), "text/x-metrics"


@contextlib.asynccontextmanager
async def serving(
    *,
    model: CharacterModel | None = None,
    loading: bool = False,
    metrics: bool = True,
    render: Callable[[str], tuple[bytes, str]] = echo_accept,
    keepalive_seconds: float = 60.0,
    request_seconds: float = 60.0,
    write_seconds: float = 60.0,
    default_max_tokens: int | None = None,
    max_lag_deltas: int = 1_000_000,
    reasoning: ReasoningEcho | None = None,
    warmup: bool = False,
    settle_seconds: float = SETTLE_SECONDS,
    capture_content: bool = False,
    clock: Clock = monotonic,
    keyring: Keyring | None = None,
    public: bool = False,
    cors_origins: Sequence[str] = (),
    snapshot_fill: SnapshotFill = FILL,
    recent_requests: Sequence[RecentRequest] = (),
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
            clock=clock,
            unix_seconds=lambda: 1_800_000_000.5,
            new_id=lambda: f"{next(ids):08d}",
            metrics=render if metrics else None,
            cache_stats=cache_numbers,
            limits=Limits(
                max_request_bytes=MAX_REQUEST_BYTES,
                request_seconds=request_seconds,
                keepalive_seconds=keepalive_seconds,
                write_seconds=write_seconds,
                default_max_tokens=default_max_tokens,
            ),
            version="1.2.3",
            uptime_seconds=lambda: 3_725.0,
            snapshot_fill=lambda: None if loading else snapshot_fill,
            recent_requests=lambda: recent_requests,
            reasoning=ReasoningEcho(0) if reasoning is None else reasoning,
            warmup=warmup,
            settling=Settling(settle_seconds),
            capture_content=capture_content,
            keyring=keyring or Keyring(),
            public=public,
            cors_origins=cors_origins,
        )
    )
    address = reserve_address("127.0.0.1", 0)
    url = url_of(address)
    async with (
        listening(app, address, connections=256),
        httpx.AsyncClient(base_url=url, timeout=WAIT_SECONDS) as client,
        RawClients(url) as sockets,
    ):
        yield Serving(url, model, engine, sink, requests, client, events, spans, sockets)


def chat_body(**fields: Any) -> dict[str, Any]:
    """A chat request; `messages` is a greeting unless given."""
    return {"messages": [{"role": "user", "content": "Hello"}], **fields}


class RawClient:
    """A client with its hands on the socket: it can stop reading, and leave when it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._unread = b""

    async def post(self, **fields: Any) -> None:
        """Send one chat request and read nothing."""
        body = json.dumps(chat_body(**fields)).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: test\r\ncontent-length: {len(body)}\r\n\r\n"
        await self.send(head.encode() + body)

    async def send(self, sent: bytes) -> None:
        """Send these bytes as they are."""
        self._writer.write(sent)
        await self._writer.drain()

    async def read_until(self, text: bytes) -> bytes:
        """Everything up to and with `text`."""
        async with asyncio.timeout(WAIT_SECONDS):
            while text not in self._unread:
                more = await self._reader.read(4096)
                assert more, f"the server closed before it sent {text!r}: {self._unread!r}"
                self._unread += more
        before, found, self._unread = self._unread.partition(text)
        return before + found

    async def read_to_end(self) -> bytes:
        """Everything until the server closes."""
        return self._unread + await asyncio.wait_for(self._reader.read(), WAIT_SECONDS)

    async def close(self) -> None:
        """Close the socket as one does who has read everything."""
        self._writer.close()
        await self._writer.wait_closed()

    async def leave(self) -> None:
        """Drop the connection, whatever is still on it."""
        self._writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()


class RawClients:
    """Connects raw clients to one server, and has all of them gone at the end of the block."""

    def __init__(self, url: str) -> None:
        host, _, port = url.removeprefix("http://").rpartition(":")
        self._address = host, int(port)
        self._clients: list[RawClient] = []

    async def connect(self) -> RawClient:
        """One more client."""
        # A small limit: beyond it asyncio stops reading the socket, as a client does that does not read.
        client = RawClient(*await asyncio.open_connection(*self._address, limit=1024))
        self._clients.append(client)
        return client

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        for client in self._clients:
            await client.leave()
