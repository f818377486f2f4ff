"""Everything that listens to the server's events, made as the settings ask. It knows no request."""

import importlib.metadata
import logging
import platform
import secrets
import time
from dataclasses import dataclass

import structlog
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from prometheus_client import CollectorRegistry

from app import __version__
from app.api.application import INFERENCE_ROUTES
from app.bus import Bus
from app.clock import monotonic
from app.loading import CAPTURE_DECLINES
from app.settings.digest import digest
from app.settings.schema import Settings
from app.snapshots.capacity import Capacity
from app.snapshots.stats import Tally
from app.telemetry.counting import Counting
from app.telemetry.label_values import Sink
from app.telemetry.log_lines import EventLines
from app.telemetry.metrics import Build, Instruments, declare
from app.telemetry.recent_requests import RecentRequests
from app.telemetry.session_hash import SessionHash
from app.telemetry.span_queue import SpanQueue
from app.telemetry.spans import EventSpans
from app.telemetry.step_tokens import StepTokens
from app.telemetry.token_gaps import TokenGaps
from app.telemetry.tracing import build_tracer_provider, otlp_exporter

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Observers:
    """Everything that listens, and what it listens with."""

    bus: Bus
    tally: Tally
    capacity: Capacity
    recent: RecentRequests
    registry: CollectorRegistry
    instruments: Instruments
    token_gaps: TokenGaps
    step_tokens: StepTokens
    provider: TracerProvider
    queue: SpanQueue | None


def build_observers(settings: Settings, resource: Resource) -> Observers:
    """Make them all; `resource` is who tells. Spans go nowhere unless the settings name a collector."""
    registry = CollectorRegistry()
    instruments = declare(
        registry,
        build=Build(
            version=__version__,
            python=platform.python_version(),
            mlx=importlib.metadata.version("mlx"),
            mlx_lm=importlib.metadata.version("mlx-lm"),
        ),
        config_digest=digest(settings),
        routes=INFERENCE_ROUTES,
        decline_reasons=CAPTURE_DECLINES,
    )
    wanted = settings.telemetry
    queue = None
    if wanted.otlp_endpoint:
        queue = SpanQueue(otlp_exporter(wanted.otlp_endpoint, wanted.otlp_protocol))
        if wanted.capture_content:
            log.warning("prompts and replies are sent to the collector (telemetry.capture_content)")
    provider = build_tracer_provider(
        resource=resource,
        sample_ratio=wanted.sample_ratio,
        processor=queue,
    )
    hash_session = SessionHash(secrets.token_bytes(32))
    tally = Tally()
    capacity = Capacity(monotonic)
    spans = EventSpans(
        provider.get_tracer("samovar", __version__),
        hash_session=hash_session,
        clock=monotonic,
        unix_nanoseconds=time.time_ns,
    )
    lines = EventLines(structlog.get_logger("samovar"), hash_session=hash_session)
    recent = RecentRequests(hash_session=hash_session, unix_seconds=time.time)
    bus = Bus(
        [
            (Sink.TALLY, tally),
            ("capacity", capacity),
            *([(Sink.METRICS, Counting(instruments))] if wanted.metrics else []),
            (Sink.TRACES, spans),
            (Sink.LOGS, lines),
            ("recent requests", recent),
        ]
    )
    return Observers(
        bus, tally, capacity, recent, registry, instruments, TokenGaps(), StepTokens(), provider, queue
    )
