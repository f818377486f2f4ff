"""The parts list: settings → telemetry → scheduler → engine → application. It decides nothing else."""

import asyncio
import sys
import threading
import time
import uuid
from collections.abc import Mapping
from typing import Any

import msgspec

from app import __version__
from app.api.application import create_app
from app.api.page.facts import RecentRequest, SnapshotFill
from app.api.reasoning_echo import ReasoningEcho
from app.api.services import Limits as RequestLimits
from app.api.services import Services
from app.api.stream import LoopSink, OpenRequests
from app.api.system_lines import SystemLines
from app.auth.keyring import Keyring
from app.clock import monotonic
from app.errors import RequestError
from app.keys import load_keys, reload_keys
from app.loading import EngineRoom
from app.observers import build_observers
from app.runtime import Milestones, Runtime, ServingEngine
from app.scheduler.admission import Admission
from app.scheduler.rebuilds import Rebuilds
from app.scheduler.warmup_queue import WarmupQueue
from app.scheduler.worker import Worker
from app.settings.conflicts import is_loopback
from app.settings.schema import DEFAULT_LAYER, Provenance, Settings
from app.snapshots.stats import stats_payload, tenant_payload
from app.supervision.start_gate import StartGate
from app.telemetry.logs import configure_logging
from app.telemetry.metrics import render
from app.telemetry.resource import build_resource, service_name_of
from app.telemetry.scrape import (
    ScrapedSeries,
    age_reading,
    level_readings,
    limits_reading,
    sizing_reading,
    starts_reading,
    store_reading,
)


def build(
    settings: Settings,
    provenance: Provenance,
    *,
    loop: asyncio.AbstractEventLoop,
    gate: StartGate | None = None,
) -> Runtime:
    """Make the whole program, started nowhere: `Runtime.start` begins with loading the model."""
    began = monotonic()
    starts = gate or StartGate(None)
    resource = build_resource(
        service_name=settings.telemetry.service_name,
        name_is_default=provenance["telemetry.service_name"] == DEFAULT_LAYER,
        version=__version__,
        instance_id=str(uuid.uuid4()),
    )
    configure_logging(
        level=settings.telemetry.log_level,
        style=settings.telemetry.log_format,
        stream=sys.stderr,
        service_name=service_name_of(resource),
    )
    keyring = Keyring(load_keys(settings.auth), clock=monotonic)
    telemetry = build_observers(settings, resource)
    wake = threading.Event()
    admission = Admission(max_waiting=settings.scheduler.max_waiting, wake=wake.set)
    rebuilds = Rebuilds(
        most=None if settings.scheduler.max_rebuilds == "off" else settings.scheduler.max_rebuilds,
        window_seconds=settings.scheduler.rebuild_window_seconds,
        clock=monotonic,
    )
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
        step_tokens=telemetry.step_tokens.record,
        on_model=telemetry.instruments.set_model,
        capacity=telemetry.capacity,
        quota=keyring.quota_of,
        rebuilds=rebuilds,
    )
    worker = Worker(
        build=room.open,
        close=room.close,
        admission=admission,
        wake=wake,
        on_change=milestones.reach,
        clock=monotonic,
    )
    engine = ServingEngine(
        admission,
        warmups,
        worker,
        room,
        stall_seconds=settings.scheduler.stall_seconds,
        held=lambda: starts.reason,
        complaint=lambda: rebuilds.complaint,
    )
    telemetry.registry.register(
        ScrapedSeries(
            [
                store_reading(telemetry.tally.read),
                limits_reading(lambda: room.limits),
                sizing_reading(telemetry.capacity.recommendation),
                age_reading(telemetry.tally.read, monotonic),
                *level_readings(_Levels(admission, worker, room)),
                starts_reading(starts.recent, lambda: starts.held),
            ],
            drops=[
                telemetry.bus.failures,
                *([telemetry.queue.dropped] if telemetry.queue is not None else []),
            ],
        )
    )
    telemetry.registry.register(telemetry.token_gaps)
    telemetry.registry.register(telemetry.step_tokens)
    requests = OpenRequests()

    def cache_stats(tenant: str | None) -> Mapping[str, Any]:
        if room.limits is None:
            raise RequestError(
                "the model is being loaded, and the store's limits follow from it",
                status=503,
                kind="server_error",
                retry_after_seconds=5,
            )
        if tenant is not None:
            own = tenant_payload(telemetry.tally.read(tenant), room.limits, quota=keyring.quota_of(tenant))
            return {"tenant": tenant, **own}
        return {
            **stats_payload(telemetry.tally.read(), room.limits, now=monotonic()),
            **telemetry.capacity.payload(),
            "snapshot_limits_from": room.layers,
        }

    def snapshot_fill() -> SnapshotFill | None:
        if room.limits is None:
            return None
        reading, right = telemetry.tally.read(), telemetry.capacity.recommendation()
        return SnapshotFill(
            enabled=room.limits.enabled,
            entries=reading.occupancy.entries,
            bytes=reading.occupancy.nbytes,
            capacity_bytes=room.limits.capacity_bytes,
            recommended_bytes=None if right is None else right.capacity_bytes,
        )

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
            system_lines=SystemLines(settings.snapshots.ignored_system_lines),
            warmup=settings.snapshots.enabled and settings.snapshots.warmup,
            capture_content=bool(settings.telemetry.otlp_endpoint) and settings.telemetry.capture_content,
            version=__version__,
            uptime_seconds=lambda: monotonic() - began,
            snapshot_fill=snapshot_fill,
            recent_requests=lambda: (
                msgspec.convert(each, RecentRequest, from_attributes=True)
                for each in telemetry.recent.newest_first()
            ),
            keyring=keyring,
            public=not is_loopback(settings.server.host),
            cors_origins=[origin.strip() for origin in settings.server.cors_origins.split(",") if origin],
        )
    )
    return Runtime(
        app=app,
        engine=engine,
        worker=worker,
        milestones=milestones,
        sink=sink,
        requests=requests,
        gate=starts,
        flush=telemetry.provider.shutdown,
        on_hangup=(lambda: reload_keys(keyring, settings.auth)) if settings.auth.keys_file else None,
        after_ready=room.after_ready,
    )


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

    def max_running(self) -> int:
        return self._room.max_running

    def max_waiting(self) -> int:
        return self._admission.max_waiting

    def last_step_unix_seconds(self) -> float:
        last = self._worker.last_step
        return 0.0 if last is None else time.time() - (monotonic() - last)

    def device_memory(self) -> Mapping[str, int]:
        return self._room.device_memory()
