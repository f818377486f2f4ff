"""Opens and closes the engine room, on the engine thread: the model, its store and its scheduler.

MLX is imported here and not before: a machine without a backend gets one sentence, and the event loop
answers probes while the model loads.
"""

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs
import structlog

from app import garbage
from app.bus import Emit
from app.clock import monotonic
from app.events import CaptureDeclined
from app.memory_settings import asked_limits, context_that_fits, given, plan_memory
from app.model_settings import model_source, require_backend
from app.progress import ProgressBar, Step
from app.scheduler.admission import Admission
from app.scheduler.core import Scheduler
from app.scheduler.memory import MemoryKeeper
from app.scheduler.ports import DeltaSink
from app.scheduler.prefill_pace import PrefillPace
from app.scheduler.rebuilds import Rebuilds
from app.scheduler.reuse import Reuse
from app.scheduler.warming import Warming
from app.scheduler.warmup_queue import WarmupQueue
from app.settings.schema import Provenance, Settings
from app.snapshots.capacity import Capacity
from app.snapshots.limits import Limits
from app.snapshots.share import Quota
from app.snapshots.sizing import from_model, snapshots_between_turns
from app.snapshots.store import SnapshotStore
from app.store_settings import keeps_anchors, store_limits, stores_completions
from app.telemetry.label_values import Capability
from app.telemetry.metrics import Model

if TYPE_CHECKING:
    from app.engine.chat_model import ServedChatModel
    from app.engine.decoder import BatchDecoder

CAPTURE_DECLINES = ("history_not_a_prefix", "history_not_rendered", "empty_history")
"""Why a prompt may get no boundary snapshot; `app.engine.prompt` decides which."""

log = structlog.get_logger(__name__)


class EngineRoom:
    """What exists once the model is loaded. `open` and `close` run on the engine thread, readers anywhere.

    Args:
        settings, provenance: as they left the loader.
        admission, warmups, emit, deliver, token_gap, step_tokens: of the scheduler.
        on_model: told what is served.
        capacity: told of the store, and what the model's state weighs.
        quota: what each tenant may hold in the store.
        rebuilds: told of each failed step.
    """

    def __init__(
        self,
        settings: Settings,
        provenance: Provenance,
        *,
        admission: Admission,
        warmups: WarmupQueue,
        emit: Emit,
        deliver: DeltaSink,
        token_gap: Callable[[float, int], None],
        step_tokens: Callable[[int, int], None],
        on_model: Callable[[Model], None],
        capacity: Capacity,
        quota: Quota,
        rebuilds: Rebuilds,
    ) -> None:
        self._settings = settings
        self._provenance = provenance
        self._admission = admission
        self._warmups = warmups
        self._emit = emit
        self._deliver = deliver
        self._token_gap = token_gap
        self._step_tokens = step_tokens
        self._on_model = on_model
        self._capacity = capacity
        self._quota = quota
        self._rebuilds = rebuilds
        self._decoder: BatchDecoder | None = None
        self._memory: Callable[[], Mapping[str, int]] = dict
        self._progress = ProgressBar(sys.stderr)
        self.model: ServedChatModel | None = None
        self.store: SnapshotStore[Any] | None = None

    def device_memory(self) -> Mapping[str, int]:
        """Bytes by kind; nothing before MLX is there."""
        return self._memory()

    @property
    def step(self) -> Step | None:
        """What the load is at; None before, between and after its steps."""
        return self._progress.step

    @property
    def limits(self) -> Limits | None:
        """What the store may hold now; None until the model is loaded."""
        return None if self.store is None else self.store.limits

    @property
    def max_running(self) -> int:
        """How many requests run at once; 0 until the model is loaded, which may allow fewer than asked."""
        decoder = self._decoder
        return 0 if decoder is None else decoder.max_running

    @property
    def layers(self) -> Mapping[str, str]:
        """Each setting of the store → the layer that its value came from."""
        prefix = "snapshots."
        return {
            key.removeprefix(prefix): layer
            for key, layer in self._provenance.items()
            if key.startswith(prefix)
        }

    def open(self) -> Scheduler[Any, Any]:
        """Load the model and make everything that follows from it.

        Raises:
            StartError: MLX has no backend on this machine.
            ModelError: the model cannot be served.
        """
        with self._progress as progress:
            return self._open(progress)

    def _open(self, progress: ProgressBar) -> Scheduler[Any, Any]:
        require_backend()
        with garbage.kept():
            from app.engine import memory  # noqa: PLC0415 - see the module's docstring
            from app.engine.batch_limits import BatchLimits  # noqa: PLC0415
            from app.engine.chat_model import ServedChatModel  # noqa: PLC0415
            from app.engine.compiler import fuse_where_possible  # noqa: PLC0415
            from app.engine.decoder import BatchDecoder  # noqa: PLC0415
            from app.engine.findings import find  # noqa: PLC0415
            from app.engine.loader import load_model  # noqa: PLC0415
            from app.engine.state_size import measure  # noqa: PLC0415
            from app.engine.warmup import warm_up  # noqa: PLC0415

        settings = self._settings
        memory_limits = asked_limits(settings)
        memory.set_limits(memory_limits, cache_bytes=given(settings.memory.cache_bytes))
        self._memory = lambda: memory.device_memory(memory_limits.limit_bytes)
        if unfused := fuse_where_possible():
            log.info("kernels are not fused, which is slower", reason=unfused)
        cache_folder = Path(platformdirs.user_cache_dir("samovar"))
        loaded = load_model(
            model_source(settings),
            cache_folder=cache_folder,
            progress=progress,
        )
        running = settings.scheduler
        asked = BatchLimits.here(
            max_running=running.max_running,
            prefill_batch=running.prefill_batch,
            prefill_step_tokens=None
            if running.prefill_step_tokens == "auto"
            else running.prefill_step_tokens,
        )
        self._decoder = BatchDecoder(
            loaded.network,
            end_tokens=loaded.tokenizer.eos_token_ids,
            limits=asked,
            pace=None
            if running.decode_stall_seconds == "off"
            else PrefillPace(running.decode_stall_seconds, most_tokens=asked.prefill_step_tokens),
            clock=monotonic,
            wired_bytes=given(settings.memory.wired_bytes),
        )
        warm_up(self._decoder, loaded, progress=progress)
        found = find(loaded, folder=cache_folder / "checks", anew=settings.model.recheck, kernels=unfused)
        for shortcoming in found.shortcomings:
            log.warning("the model cannot be relied on in everything", shortcoming=shortcoming)
        self._decoder.restrict(found.limits(asked), truncatable=found.truncation)
        loaded = replace(loaded, truncatable=loaded.truncatable and found.truncation)
        size = measure(loaded.network)
        plan = plan_memory(
            settings, memory_limits, model=loaded.name, used_bytes=memory.used_bytes(), size=size
        )
        loaded = replace(loaded, context_length=context_that_fits(plan, loaded.context_length))
        start = from_model(
            size,
            context_length=loaded.context_length,
            snapshots_each=snapshots_between_turns(
                warmup=settings.snapshots.warmup, truncatable=loaded.truncatable
            ),
            available_bytes=memory_limits.available_bytes(plan.fixed_bytes),
        )
        limits = store_limits(settings, start.capacity_bytes, memory.default_max_arrays)
        if not (found.reuse or found.unknown_kinds):
            # States of unknown kinds never enter the store: left on, it counts each as unsupported.
            limits = replace(limits, enabled=False)
        self.store = SnapshotStore(limits, clock=monotonic, emit=self._emit, quota=self._quota)
        self._capacity.open(
            self.store, start=start, automatic=limits.enabled and settings.snapshots.capacity_bytes == "auto"
        )
        self._log_store(limits)
        self.model = ServedChatModel(
            loaded,
            unix_seconds=time.time,
            on_declined=lambda reason: self._emit(CaptureDeclined(reason, None)),
            anchor_tokens=settings.snapshots.min_prefix_tokens if keeps_anchors(settings) else None,
        )
        self._on_model(
            Model(
                loaded.name,
                loaded.family,
                ",".join(loaded.cache_kinds),
                frozenset(each for each in Capability if getattr(found, each.value)),
            )
        )
        keeper = MemoryKeeper(
            plan,
            self.store,
            footprint=memory.used_bytes,
            relieve=self._decoder.idle,
            clock=monotonic,
        )
        reuse = Reuse(
            self.store,
            self._decoder,
            store_completions=stores_completions(settings, truncatable=loaded.truncatable),
            truncatable=loaded.truncatable,
            emit=self._emit,
            clock=monotonic,
            memory=keeper,
        )
        return Scheduler(
            self._decoder,
            reuse,
            self._admission,
            warming=Warming(self._warmups, self._decoder, reuse, emit=self._emit, clock=monotonic),
            max_running=self._decoder.max_running,
            shared_prefix_tokens=running.shared_prefix_tokens,
            queue_seconds=running.queue_seconds,
            memory=keeper,
            rebuilds=self._rebuilds,
            deliver=self._deliver,
            emit=self._emit,
            token_gap=self._token_gap,
            step_tokens=self._step_tokens,
            clock=monotonic,
        )

    def after_ready(self) -> None:
        """What no request needs at once: any thread, once the model is there."""
        if self.model is not None:
            self.model.read_vocabulary()
        garbage.keep_all()

    def close(self) -> None:
        """Drop every state and the model, and end the engine thread's use of the device."""
        if self.store is not None:
            self.store.clear()
        if self._decoder is not None:
            decoder, self._decoder = self._decoder, None
            decoder.close()

    def _log_store(self, limits: Limits) -> None:
        if not limits.enabled:
            log.info(
                "snapshot store is off",
                layer="model" if self._settings.snapshots.enabled else self.layers["enabled"],
            )
            return
        log.info(
            "snapshot store",
            capacity_bytes=limits.capacity_bytes,
            max_entries=limits.max_entries,
            max_arrays=limits.max_arrays,
            ttl_seconds=limits.ttl_seconds,
            min_prefix_tokens=limits.min_prefix_tokens,
            supersede=limits.supersede,
            keep_ancestors=limits.keep_ancestors,
            layers={key: layer for key, layer in self.layers.items() if layer != "default"} or "all defaults",
        )
