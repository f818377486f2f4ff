"""Starts Granian on the built application, drains it on a signal and decides the exit code. Knows no MLX."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, Protocol

import uvloop
from litestar import Litestar

from app import garbage
from app.api.ports import Health, Phase
from app.bootstrap import build
from app.ending import FORCED_EXIT_CODE, Signals, close
from app.errors import SamovarError
from app.listener import HEADER_BYTES, listening, reserve_address, url_of
from app.settings.schema import Provenance, Settings
from app.starts import start_journal
from app.supervision.log_file import LogFile
from app.supervision.notify import Notifier
from app.supervision.start_gate import StartGate
from app.tls import TlsFiles, usable

FAREWELL_SECONDS = 3.0
"""How long the last words of ended streams may take to be written."""

IDLE_CONNECTIONS = 1024
"""Granian counts idle connections and probes as load too: places for those, besides what the engine takes."""

ATTENDANCE_SECONDS = 5.0
"""How often the supervisor is told how things are, and the log file is looked after."""


class Runtime(Protocol):
    """The built program as the server needs it. All of it is called on the event loop's thread.

    The order of calls: `may_load`, `start`, then either `ready` returns or `failure` does; on a signal
    `drain`, then `idle` within the deadline or else `abort`; at last `close`, whatever happened before.
    """

    @property
    def app(self) -> Litestar:
        """What Granian serves, from before `start` until after `abort`."""
        ...

    @property
    def on_hangup(self) -> Callable[[], None] | None:
        """What SIGHUP does; None leaves it to end the process, as the end of a terminal should."""
        ...

    @property
    def model_name(self) -> str:
        """What clients ask for; known once `ready` has returned."""
        ...

    def health(self) -> Health:
        """Phase and load, as of now; from the first moment on."""
        ...

    async def may_load(self) -> None:
        """Return once the model may be loaded; it may be held back, while probes say why."""
        ...

    def start(self) -> None:
        """Start the engine thread, which loads the model, and return at once."""
        ...

    async def ready(self) -> None:
        """Return once the model is loaded; wait for ever if it never is."""
        ...

    async def failure(self) -> SamovarError:
        """Return why the engine thread ended by itself (a failed load, a crash); else wait for ever."""
        ...

    def drain(self) -> None:
        """From now on: readiness off, new work refused with 503. Idempotent."""
        ...

    async def idle(self) -> None:
        """Return once every inference request has been answered (`OpenRequests.none_left`)."""
        ...

    def abort(self, message: str) -> None:
        """Cancel what runs and end its answers with an error (`LoopSink.end_all`)."""
        ...

    async def close(self) -> bool:
        """End the engine thread and flush telemetry; whether the thread has ended.

        Idempotent; safe if `start` never ran.
        """
        ...


def serve(settings: Settings, provenance: Provenance, notifier: Notifier) -> int:
    """Serve until a signal; the exit code is 0 after a drain, 1 after a forced end.

    `notifier` tells systemd, where it is the one who started this.

    Raises:
        SamovarError: the address cannot be had, the model cannot be loaded, or the engine has failed.
    """
    log_file = None
    if settings.telemetry.log_file:
        log_file = LogFile(Path(settings.telemetry.log_file).expanduser().absolute())
        log_file.open()
    server = settings.server
    tls = usable(server.tls_certificate, server.tls_key) if server.tls_certificate else None
    address = reserve_address(server.host, server.port)
    scheduler = settings.scheduler
    gate = StartGate(start_journal(settings))
    try:
        code = run(
            lambda loop: build(settings, provenance, loop=loop, gate=gate),
            address=address,
            connections=IDLE_CONNECTIONS + scheduler.max_running + scheduler.max_waiting,
            header_bytes=settings.server.max_header_bytes,
            drain_seconds=settings.server.drain_seconds,
            notifier=notifier,
            log_file=log_file,
            tls=tls,
        )
    except Exception as error:
        gate.ended(error)
        raise
    finally:
        if log_file is not None:
            log_file.close()
    gate.ended(None)
    return code


def run(
    make: Callable[[asyncio.AbstractEventLoop], Runtime],
    *,
    address: tuple[str, int],
    connections: int,
    header_bytes: int = HEADER_BYTES,
    drain_seconds: float,
    notifier: Notifier,
    log_file: LogFile | None = None,
    tls: TlsFiles | None = None,
) -> int:
    """Serve what `make` makes on its own event loop until a signal; see `serve`.

    Args:
        make: builds the program for the loop it will live on.
        address: IP address and port to listen on.
        connections: most connections at a time, idle ones included.
        header_bytes: longest headers of a request.
        drain_seconds: how long running requests may go on after the signal.
        notifier: told when the server is ready and when it drains.
        log_file: followed where it is moved.
        tls: what HTTPS is served with.

    Raises:
        SamovarError: as `serve`.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(
            _serve(
                make,
                address,
                connections=connections,
                header_bytes=header_bytes,
                drain_seconds=drain_seconds,
                notifier=notifier,
                log_file=log_file,
                tls=tls,
            )
        )


async def _serve(
    make: Callable[[asyncio.AbstractEventLoop], Runtime],
    address: tuple[str, int],
    *,
    connections: int,
    header_bytes: int,
    drain_seconds: float,
    notifier: Notifier,
    log_file: LogFile | None,
    tls: TlsFiles | None,
) -> int:
    loop = asyncio.get_running_loop()
    signals = Signals(loop)
    with garbage.kept():
        runtime = make(loop)
    if runtime.on_hangup is not None:
        loop.add_signal_handler(signal.SIGHUP, runtime.on_hangup)
    url = url_of(address, tls=tls is not None)
    code = FORCED_EXIT_CODE
    try:
        async with (
            listening(
                runtime.app, address, connections=connections, header_bytes=header_bytes, tls=tls
            ) as listener,
            _attended(runtime, notifier, log_file),
        ):
            failures = (runtime.failure, listener.failure)
            if failed := await _first(runtime.may_load, signals.first.wait, *failures):
                raise await _stopped_by(failed, runtime)
            if not signals.first.is_set():
                runtime.start()
                if failed := await _first(runtime.ready, signals.first.wait, *failures):
                    raise await _stopped_by(failed, runtime)
            if not signals.first.is_set():
                _greet(runtime.model_name, url)
                notifier.ready(f"serves {runtime.model_name} at {url}")
                if failed := await _first(signals.first.wait, *failures):
                    raise await _stopped_by(failed, runtime)
            runtime.drain()
            notifier.stopping()
            await _first(runtime.idle, signals.second.wait, lambda: asyncio.sleep(drain_seconds), *failures)
            await _farewell(runtime, "The server is shutting down; please send the request again.")
            code = os.EX_OK
    finally:
        await close(runtime.close, signals, code)
    return FORCED_EXIT_CODE if signals.second.is_set() else os.EX_OK


@contextlib.asynccontextmanager
async def _attended(runtime: Runtime, notifier: Notifier, log_file: LogFile | None) -> AsyncIterator[None]:
    """While the block lasts, keep the watchdog and the log file going and say what holds things up."""
    watchdog_seconds = notifier.watchdog_seconds
    # Half of what is allowed, as sd_watchdog_enabled(3) advises.
    pause = min(ATTENDANCE_SECONDS, watchdog_seconds / 2) if watchdog_seconds else ATTENDANCE_SECONDS

    async def attend() -> None:
        said = ""
        while True:
            health = runtime.health()
            if health.phase not in {Phase.STALLED, Phase.FAILED}:
                notifier.alive()
            if health.reason not in {"", said}:
                said = health.reason
                notifier.status(said)
            if log_file is not None:
                log_file.follow()
            await asyncio.sleep(pause)

    task = asyncio.ensure_future(attend())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _stopped_by(failed: SamovarError, runtime: Runtime) -> SamovarError:
    """The failure, once all running requests have been told of it."""
    runtime.drain()
    await _farewell(runtime, "The server has failed and is being stopped.")
    return failed


async def _farewell(runtime: Runtime, message: str) -> None:
    """End what still runs with an error, and let that be written."""
    runtime.abort(message)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(FAREWELL_SECONDS):
            await runtime.idle()


async def _first(*waits: Callable[[], Coroutine[Any, Any, object]]) -> SamovarError | None:
    """Wait for whichever comes first; the error, if what came is one."""
    tasks = [asyncio.ensure_future(wait()) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return next((result for task in done if isinstance(result := task.result(), SamovarError)), None)


def _greet(model: str, url: str) -> None:
    """Say what to do next, to whoever started the program by hand."""
    request = '{"messages": [{"role": "user", "content": "Hello"}]}'
    text = (
        f"Samovar serves {model} at {url}\n"
        f"  ask      curl {url}/v1/chat/completions -H 'content-type: application/json' -d '{request}'\n"
        f"  metrics  {url}/metrics\n"
        f"  routes   {url}/docs\n"
    )
    # Not through Python's buffer, which would keep what a full disk refused and fail on it again at exit.
    with contextlib.suppress(OSError):
        os.write(sys.stdout.fileno(), text.encode())
