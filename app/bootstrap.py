"""The parts list: settings → telemetry → scheduler → engine → application. It decides nothing else."""

import asyncio
import importlib.metadata
import platform
import secrets
import sys
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from opentelemetry.sdk.trace import TracerProvider
from prometheus_client import CollectorRegistry

from app import __version__
from app.api.application import INFERENCE_ROUTES, create_app
from app.api.reasoning_echo import ReasoningEcho
from app.api.services import Limits as RequestLimits
from app.api.services import Services
from app.api.stream import LoopSink, OpenRequests
from app.bus import Bus
from app.clock import monotonic
from app.errors import RequestError
from app.loading import CAPTURE_DECLINES, EngineRoom
from app.runtime import Milestones, Runtime, ServingEngine
from app.scheduler.admission import Admission
from app.scheduler.warmup_queue import WarmupQueue
from app.scheduler.worker import Worker
from app.settings.schema import Provenance, Settings
from app.snapshots.stats import Tally, stats_payload
from app.telemetry.catalogue import Sink
from app.telemetry.counting import Counting
from app.telemetry.log_lines import EventLines
from app.telemetry.logs import configure_logging
from app.telemetry.metrics import Build, Instruments, declare, render
from app.telemetry.scrape import ScrapedSeries, level_readings, limits_reading, store_reading
from app.telemetry.session_hash import SessionHash
from app.telemetry.span_queue import SpanQueue
from app.telemetry.spans import EventSpans
from app.telemetry.token_gaps import TokenGaps
from app.telemetry.tracing import build_tracer_provider, otlp_exporter


@dataclass(frozen=True, slots=True)
class _Telemetry:
    """Everything that listens, and what it listens with."""

    bus: Bus
    tally: Tally
    registry: CollectorRegistry
    instruments: Instruments
    token_gaps: TokenGaps
    provider: TracerProvider
    queue: SpanQueue | None


def build(settings: Settings, provenance: Provenance, *, loop: asyncio.AbstractEventLoop) -> Runtime:
    """Make the whole program, started nowhere: `Runtime.start` begins with loading the model."""
    configure_logging(
        level=settings.telemetry.log_level,
        style=settings.telemetry.log_format,
        stream=sys.stderr,
        service_name=settings.telemetry.service_name,
    )
    telemetry = _telemetry(settings)
    wake = threading.Event()
    admission = Admission(max_waiting=settings.scheduler.max_waiting, wake=wake.set)
    warmups = WarmupQueue(wake=wake.set, emit=telemetry.bus.publish, clock=monotonic)
    milestones = Milestones(loop)
    sink = LoopSink(loop)
    room = EngineRoom(
        settings,
        provenance,
        admission=admission,
        warmups=warmups,
        emit=telemetry.bus.publish,
        deliver=sink,
        token_gap=telemetry.token_gaps.record,
        on_model=telemetry.instruments.set_model,
    )
    worker = Worker(
        build=room.open,
        close=room.close,
        admission=admission,
        wake=wake,
        on_change=milestones.reach,
        clock=monotonic,
    )
    engine = ServingEngine(admission, warmups, worker, room, stall_seconds=settings.scheduler.stall_seconds)
    telemetry.registry.register(
        ScrapedSeries(
            [
                store_reading(telemetry.tally.read),
                limits_reading(lambda: room.limits),
                *level_readings(_Levels(admission, worker, room)),
            ],
            drops=[
                telemetry.bus.failures,
                *([telemetry.queue.dropped] if telemetry.queue is not None else []),
            ],
        )
    )
    telemetry.registry.register(telemetry.token_gaps)
    requests = OpenRequests()

    def cache_stats() -> Mapping[str, Any]:
        if room.limits is None:
            raise RequestError(
                "the model is being loaded, and the store's limits follow from it",
                status=503,
                kind="server_error",
                retry_after_seconds=5,
            )
        return stats_payload(telemetry.tally.read(), room.limits) | {"snapshot_limits_from": room.layers}

    app = create_app(
        Services(
            engine=engine,
            sink=sink,
            requests=requests,
            emit=telemetry.bus.publish,
            tracer=telemetry.provider.get_tracer("samovar", __version__),
            clock=monotonic,
            unix_seconds=time.time,
            new_id=lambda: uuid.uuid4().hex,
            metrics=(lambda accept: render(telemetry.registry, accept))
            if settings.telemetry.metrics
            else None,
            cache_stats=cache_stats,
            limits=_request_limits(settings),
            reasoning=_reasoning_echo(settings),
            warmup=settings.snapshots.enabled and settings.snapshots.warmup,
            version=__version__,
        )
    )
    return Runtime(
        app=app,
        engine=engine,
        worker=worker,
        milestones=milestones,
        sink=sink,
        requests=requests,
        flush=telemetry.provider.shutdown,
    )


def _telemetry(settings: Settings) -> _Telemetry:
    registry = CollectorRegistry()
    instruments = declare(
        registry,
        build=Build(
            version=__version__,
            python=platform.python_version(),
            mlx=importlib.metadata.version("mlx"),
            mlx_lm=importlib.metadata.version("mlx-lm"),
        ),
        routes=INFERENCE_ROUTES,
        decline_reasons=CAPTURE_DECLINES,
    )
    wanted = settings.telemetry
    queue = None
    if wanted.otlp_endpoint:
        queue = SpanQueue(otlp_exporter(wanted.otlp_endpoint, wanted.otlp_protocol))
    provider = build_tracer_provider(
        service_name=wanted.service_name,
        version=__version__,
        sample_ratio=wanted.sample_ratio,
        processor=queue,
    )
    hash_session = SessionHash(secrets.token_bytes(32))
    tally = Tally()
    spans = EventSpans(
        provider.get_tracer("samovar", __version__),
        hash_session=hash_session,
        clock=monotonic,
        unix_nanoseconds=time.time_ns,
    )
    lines = EventLines(structlog.get_logger("samovar"), hash_session=hash_session)
    bus = Bus(
        [
            (Sink.TALLY, tally),
            (Sink.METRICS, Counting(instruments)),
            (Sink.TRACES, spans),
            (Sink.LOGS, lines),
        ]
    )
    return _Telemetry(bus, tally, registry, instruments, TokenGaps(), provider, queue)


def _reasoning_echo(settings: Settings) -> ReasoningEcho:
    asked = settings.snapshots.reasoning_echo_bytes
    return ReasoningEcho(0 if asked == "off" else asked)


def _request_limits(settings: Settings) -> RequestLimits:
    asked = settings.scheduler.default_max_tokens
    return RequestLimits(
        max_request_bytes=settings.server.max_request_bytes,
        request_seconds=settings.server.request_seconds,
        keepalive_seconds=settings.server.keepalive_seconds,
        default_max_tokens=None if asked == "auto" else asked,
    )


class _Levels:
    """Reads levels where they are, at a scrape."""

    def __init__(self, admission: Admission, worker: Worker, room: EngineRoom) -> None:
        self._admission = admission
        self._worker = worker
        self._room = room

    def running(self) -> int:
        return self._worker.running

    def waiting(self) -> int:
        return len(self._admission)

    def last_step_unix_seconds(self) -> float:
        last = self._worker.last_step
        return 0.0 if last is None else time.time() - (monotonic() - last)

    def device_memory(self) -> Mapping[str, int]:
        return self._room.device_memory()
