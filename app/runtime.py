"""The running program: the engine as the HTTP side sees it, and its life from start to close."""

import asyncio
import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from litestar import Litestar

from app.api import ports
from app.api.errors import unavailable
from app.api.stream import LoopSink, OpenRequests
from app.errors import RequestError, SamovarError
from app.progress import Step
from app.scheduler.admission import Admission, Ending
from app.scheduler.job import Job, JobId
from app.scheduler.warmup_queue import WarmupQueue
from app.scheduler.worker import Phase, Worker
from app.snapshots.store import SnapshotStore
from app.supervision.start_gate import StartGate

ENGINE_END_SECONDS = 20.0
"""How long the engine thread may take to end its step and release the device."""

LOAD_END_SECONDS = 2.0
"""The same while the model is loaded, which cannot be interrupted and leaves nothing to be lost."""

_POLL_SECONDS = 0.02

_RETRY_WHILE_DRAINING_SECONDS = 10


class Loaded(Protocol):
    """What the engine thread has made so far."""

    @property
    def model(self) -> ports.ChatModel | None:
        """None until it is loaded."""
        ...

    @property
    def store(self) -> SnapshotStore[Any] | None:
        """None until the model is loaded: its limits follow from the model."""
        ...

    @property
    def step(self) -> Step | None:
        """What the load is at."""
        ...


class ServingEngine:
    """The scheduler's face for the HTTP side. Its model and store come once the engine thread made them.

    Args:
        admission: the door to the scheduler.
        warmups: the side door, for what may wait.
        worker: the engine thread.
        loaded: where the engine thread puts the model and the store.
        stall_seconds: how long pending work may wait for a step's end before the engine counts as stalled.
        held: why the model is not being loaded for now; empty where it is.
        complaint: why the engine is not to be relied on for now; empty where it is.
    """

    def __init__(
        self,
        admission: Admission,
        warmups: WarmupQueue,
        worker: Worker,
        loaded: Loaded,
        *,
        stall_seconds: float,
        held: Callable[[], str] = lambda: "",
        complaint: Callable[[], str] = lambda: "",
    ) -> None:
        self._admission = admission
        self._warmups = warmups
        self._worker = worker
        self._loaded = loaded
        self._stall_seconds = stall_seconds
        self._held = held
        self._complaint = complaint
        self._draining = False

    @property
    def model(self) -> ports.ChatModel | None:
        """None until the model is loaded."""
        return self._loaded.model if self._worker.phase is not Phase.LOADING else None

    def health(self) -> ports.Health:
        """Phase and load, as of now."""
        phase, reason = self._phase()
        step = self._loaded.step if phase is ports.Phase.LOADING else None
        progress = None if step is None else ports.Progress(step.what, step.percent)
        return ports.Health(phase, reason, self._worker.running, len(self._admission), progress)

    def _phase(self) -> tuple[ports.Phase, str]:
        if self._worker.phase is Phase.FAILED:
            return ports.Phase.FAILED, f"the engine has failed: {self._worker.failure}"
        if self._draining:
            return ports.Phase.DRAINING, "the server is shutting down"
        if self._worker.phase is Phase.LOADING:
            held = self._held()
            return (
                (ports.Phase.CRASH_LOOP, held) if held else (ports.Phase.LOADING, "the model is being loaded")
            )
        if self._worker.phase is Phase.STOPPED:
            return ports.Phase.FAILED, "the engine has stopped"
        if self._worker.is_stalled(self._stall_seconds):
            return ports.Phase.STALLED, f"no step has ended for {self._stall_seconds:g} seconds"
        complaint = self._complaint()
        return (ports.Phase.FAILING if complaint else ports.Phase.READY), complaint

    def expecting(self) -> AbstractContextManager[None]:
        """Announce a job that is being prepared."""
        return self._admission.expecting()

    def submit(self, job: Job) -> None:
        """Queue a job, if the engine takes any.

        Raises:
            RequestError: 429 the queue is full; 503 loading, draining, stalled or failed.
        """
        health = self.health()
        if health.phase is not ports.Phase.READY:
            raise unavailable(health)
        self._admission.offer(job)

    def cancel(self, job_id: JobId) -> None:
        """Free a job's place within one step."""
        self._admission.end(job_id, Ending.CANCELLED)

    def finish(self, job_id: JobId) -> None:
        """End a job whose text is complete."""
        self._admission.end(job_id, Ending.STOPPED)

    def warm_up(self, job: Job) -> None:
        """Compute a next turn's history when there is time."""
        self._warmups.offer(job)

    async def reset(self, tenant: str | None = None) -> ports.Cleared:
        """Empty the snapshot store, or what one tenant has in it.

        Off the event loop: dropping thousands of states takes its time.

        Raises:
            RequestError: 503 while the model is being loaded.
        """
        cleared = await asyncio.to_thread(self._store().clear, tenant)
        return ports.Cleared(cleared.entries, cleared.nbytes)

    async def forget_session(self, tenant: str, session: str) -> ports.Cleared:
        """Remove what the snapshot store holds of one session.

        Raises:
            RequestError: 503 while the model is being loaded.
        """
        cleared = await asyncio.to_thread(self._store().forget_session, tenant, session)
        return ports.Cleared(cleared.entries, cleared.nbytes)

    def _store(self) -> SnapshotStore[Any]:
        store = self._loaded.store
        if store is None:
            raise unavailable(self.health())
        return store

    def drain(self) -> None:
        """Take no more jobs; those that run or wait go on."""
        self._draining = True
        self._admission.close(
            RequestError(
                "the server is shutting down; send the request to another one, or try again later",
                status=503,
                kind="server_error",
                code="draining",
                retry_after_seconds=_RETRY_WHILE_DRAINING_SECONDS,
            )
        )


class Milestones:
    """Carries the engine's phases from its thread to whoever awaits them on the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._reached = {phase: asyncio.Event() for phase in Phase}

    def reach(self, phase: Phase) -> None:
        """Called on the engine thread."""
        # The loop may have gone before the engine's last phase; nobody awaits it then.
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._reached[phase].set)

    async def wait(self, phase: Phase) -> None:
        """Return once `phase` has been reached."""
        await self._reached[phase].wait()


class Runtime:
    """Implements `app.server.Runtime` over the parts that bootstrap made."""

    def __init__(
        self,
        *,
        app: Litestar,
        engine: ServingEngine,
        worker: Worker,
        milestones: Milestones,
        sink: LoopSink,
        requests: OpenRequests,
        gate: StartGate,
        flush: Callable[[], None],
        on_hangup: Callable[[], None] | None = None,
        after_ready: Callable[[], None] = lambda: None,
    ) -> None:
        self.app = app
        self.on_hangup = on_hangup
        self._after_ready = after_ready
        self._afterwards: asyncio.Future[None] | None = None
        self._engine = engine
        self._worker = worker
        self._milestones = milestones
        self._sink = sink
        self._requests = requests
        self._gate = gate
        self._flush = flush
        self._closed = False

    @property
    def model_name(self) -> str:
        """What clients ask for; known once `ready` has returned."""
        assert self._engine.model is not None, "asked before the model was loaded"
        return self._engine.model.name

    def health(self) -> ports.Health:
        """Phase and load, as of now."""
        return self._engine.health()

    async def may_load(self) -> None:
        """Return once the model may be loaded; a crash loop holds it back."""
        await self._gate.opened()

    def start(self) -> None:
        """Start the engine thread, which loads the model, and return at once."""
        self._gate.begin()
        self._worker.start()

    async def ready(self) -> None:
        """Return once the model is loaded; what may come after that is begun then, on a thread of its own."""
        await self._milestones.wait(Phase.READY)
        self._afterwards = asyncio.get_running_loop().run_in_executor(None, self._after_ready)

    async def failure(self) -> SamovarError:
        """Return why the engine thread ended by itself."""
        await self._milestones.wait(Phase.FAILED)
        failure = self._worker.failure
        if isinstance(failure, SamovarError):
            return failure
        return SamovarError(f"the engine failed: {type(failure).__name__}: {failure}")

    def drain(self) -> None:
        """From now on: readiness off, new work refused with 503."""
        self._engine.drain()

    async def idle(self) -> None:
        """Return once every inference request has been answered."""
        await self._requests.none_left()

    def abort(self, message: str) -> None:
        """Cancel what runs and end its answers with an error."""
        self._sink.end_all(message)

    async def close(self) -> bool:
        """End the engine thread and flush telemetry; whether the thread has ended.

        Idempotent; safe if `start` never ran.
        """
        if not self._closed:
            self._closed = True
            loading = self._worker.phase is Phase.LOADING
            self._worker.stop()
            # Asked again and again: a thread that waits for it could not be left behind with it.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOAD_END_SECONDS if loading else ENGINE_END_SECONDS):
                    while not self._worker.join(0):  # noqa: ASYNC110 - the end of a thread sets no event
                        await asyncio.sleep(_POLL_SECONDS)
            await asyncio.to_thread(self._flush)
        return self._worker.join(0)
