"""A process that serves a scripted runtime through `app.server`, for tests to start, signal and watch.

Its engine thread answers by the last message of a request: `echo …` repeats the rest, a token a step;
`forever` never ends, `flood` is more than any buffer holds; anything else is never answered.
"""

import argparse
import asyncio
import itertools
import os
import signal
import sys
import threading
import time

from opentelemetry.trace import NoOpTracer

from app.api.application import create_app
from app.api.errors import unavailable
from app.api.ports import Health, Phase
from app.api.services import Limits, Services
from app.api.stream import LoopSink, OpenRequests
from app.bus import discard
from app.clock import monotonic
from app.errors import ModelError, SamovarError
from app.listener import reserve_address
from app.scheduler.job import Delta, Generated, Job, JobId, Started
from app.server import run
from app.supervision.notify import notifier
from app.vocabulary import FinishReason
from tests.support.scripted_engine import BULK, CharacterModel, ScriptedEngine

STEP_SECONDS = 0.005


class PacedEngine(ScriptedEngine):
    """Steps on a thread of its own: every job gets its next token at each step."""

    def __init__(self, sink: LoopSink, model: CharacterModel | None) -> None:
        super().__init__(sink, model)
        self._jobs: dict[JobId, tuple[Job, list[str]]] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, name="engine")

    def health(self) -> Health:
        """Running are the jobs that have tokens to come, waiting those that have got all they ever get."""
        with self._lock:
            running = sum(bool(reply) for _, reply in self._jobs.values())
            return Health(self.phase, self.reason, running, len(self._jobs) - running)

    def submit(self, job: Job) -> None:
        if self.phase is not Phase.READY:
            raise unavailable(self.health())
        last = "".join(map(chr, job.tokens)).rstrip("\n").rpartition("user: ")[2]
        verb, _, text = last.partition(" ")
        reply = {"echo": list(text), "forever": ["x"] * 1_000_000, "flood": [BULK] * 100}.get(verb, [])
        with self._lock:
            self._jobs[job.id] = (job, reply)
        self._sink([(job.id, Started(0, None))])

    def cancel(self, job_id: JobId) -> None:
        with self._lock:
            self._jobs.pop(job_id, None)

    def stop(self) -> None:
        """End the thread after its step."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            time.sleep(STEP_SECONDS)
            self._sink(self._step())

    def _step(self) -> list[tuple[JobId, Delta]]:
        deltas: list[tuple[JobId, Delta]] = []
        with self._lock:
            for job_id, (_, reply) in list(self._jobs.items()):
                if reply:
                    token = ord(reply.pop(0))
                    finish = None if reply or token == ord(BULK) else FinishReason.STOP
                    deltas.append((job_id, Generated(token, None, finish)))
                    if finish:
                        del self._jobs[job_id]
        return deltas


class ScriptedRuntime:
    """Implements `app.server.Runtime`: loads when SIGUSR1 comes, fails when SIGUSR2 does.

    Args:
        loop: the server's.
        loading: whether to wait for SIGUSR1; otherwise it is ready at once.
        hanging: whether `close` never returns.
    """

    model_name = "scripted"
    on_hangup = None

    def __init__(self, loop: asyncio.AbstractEventLoop, *, loading: bool, hanging: bool) -> None:
        self._sink = LoopSink(loop)
        self._requests = OpenRequests()
        self._engine = PacedEngine(self._sink, None if loading else CharacterModel())
        self._ready, self._failed = asyncio.Event(), asyncio.Event()
        self._loading = loading
        self._hanging = hanging
        ids = itertools.count()
        self.app = create_app(
            Services(
                engine=self._engine,
                sink=self._sink,
                requests=self._requests,
                emit=discard,
                tracer=NoOpTracer(),
                clock=monotonic,
                unix_seconds=time.time,
                new_id=lambda: str(next(ids)),
                metrics=None,
                cache_stats=lambda _tenant: {},
                limits=Limits(max_request_bytes=2**20, request_seconds=600, keepalive_seconds=0.2),
                version="0",
                uptime_seconds=monotonic,
                snapshot_fill=lambda: None,
                recent_requests=tuple,
            )
        )
        loop.add_signal_handler(signal.SIGUSR1, self._load)
        loop.add_signal_handler(signal.SIGUSR2, self._failed.set)

    def health(self) -> Health:
        return self._engine.health()

    async def may_load(self) -> None:
        """At once."""

    def start(self) -> None:
        self._engine.thread.start()
        if not self._loading:
            self._load()

    def _load(self) -> None:
        self._engine.model = self._engine.model or CharacterModel()
        self._engine.phase, self._engine.reason = Phase.READY, ""
        self._ready.set()

    async def ready(self) -> None:
        await self._ready.wait()

    async def failure(self) -> SamovarError:
        await self._failed.wait()
        return ModelError("The model cannot be used: it is scripted to fail.")

    def drain(self) -> None:
        self._engine.phase, self._engine.reason = Phase.DRAINING, "the server is shutting down"

    async def idle(self) -> None:
        await self._requests.none_left()

    def abort(self, message: str) -> None:
        self._sink.end_all(message)

    async def close(self) -> bool:
        self._engine.stop()
        if self._engine.thread.ident is not None:
            await asyncio.to_thread(self._engine.thread.join)
        sys.stdout.write("closed\n")
        sys.stdout.flush()
        if self._hanging:
            await asyncio.Event().wait()
        return True


def main() -> int:
    """Serve until a signal; a SamovarError is one sentence and exit code 1, as the command does it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--loading", action="store_true")
    parser.add_argument("--hanging", action="store_true")
    parser.add_argument("--drain-seconds", type=float, default=30.0)
    asked = parser.parse_args()
    address = reserve_address("127.0.0.1", 0)
    sys.stdout.write(f"port {address[1]}\n")
    sys.stdout.flush()
    try:
        return run(
            lambda loop: ScriptedRuntime(loop, loading=asked.loading, hanging=asked.hanging),
            address=address,
            connections=256,
            drain_seconds=asked.drain_seconds,
            notifier=notifier(os.environ),
        )
    except SamovarError as error:
        sys.stderr.write(f"{error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
