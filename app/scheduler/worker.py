"""The engine thread: loads, steps while there is work, tidies while there is none, and always ends."""

import logging
import threading
from collections.abc import Callable
from enum import StrEnum
from typing import Any

from app.clock import Clock
from app.errors import RequestError, SamovarError
from app.scheduler.admission import Admission
from app.scheduler.core import Scheduler

log = logging.getLogger(__name__)

IDLE_TICK_SECONDS = 1.0
"""How often an idle engine sweeps; an expired entry is at most this much late."""


class Phase(StrEnum):
    """Where the engine is in its life."""

    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"
    STOPPED = "stopped"


class Worker:
    """One thread that owns the device from its first line to its last.

    Args:
        build: makes the scheduler on the engine thread; it may take minutes (it loads the model).
        close: releases the device, on the engine thread, whatever happened before.
        admission: refused to new jobs while there is no engine to take them.
        wake: set by whoever has work for an idle engine.
        on_change: told each new phase, on the engine thread.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        *,
        build: Callable[[], Scheduler[Any, Any]],
        close: Callable[[], None],
        admission: Admission,
        wake: threading.Event,
        on_change: Callable[[Phase], None],
        clock: Clock,
    ) -> None:
        self._build = build
        self._close = close
        self._admission = admission
        self._wake = wake
        self._on_change = on_change
        self._clock = clock
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._scheduler: Scheduler[Any, Any] | None = None
        self._phase = Phase.LOADING
        self._failure: BaseException | None = None

    @property
    def phase(self) -> Phase:
        """Where the engine is in its life."""
        return self._phase

    @property
    def failure(self) -> BaseException | None:
        """What ended the engine, in phase FAILED."""
        return self._failure

    @property
    def running(self) -> int:
        """How many jobs are on the decoder."""
        return self._scheduler.running if self._scheduler else 0

    @property
    def last_step(self) -> float | None:
        """When the last step ended, on the clock; None before the first."""
        return self._scheduler.last_step if self._scheduler else None

    def is_stalled(self, after_seconds: float) -> bool:
        """Whether work is pending and no step has ended for `after_seconds`."""
        scheduler = self._scheduler
        if scheduler is None or self._phase is not Phase.READY:
            return False
        pending = scheduler.running or len(self._admission)
        return bool(pending) and self._clock() - scheduler.last_step > after_seconds

    def start(self) -> None:
        """Start the thread; its phase tells how it goes."""
        self._thread.start()

    def stop(self) -> None:
        """End the loop after the current step; jobs still there get their last word."""
        self._stopping.set()
        self._wake.set()

    def join(self, timeout_seconds: float) -> bool:
        """Wait for the thread's end; False if it did not come in time."""
        if self._thread.ident is not None:
            self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._scheduler = self._build()
            self._enter(Phase.READY)
            self._serve(self._scheduler)
            self._leave("the server is shutting down")
            self._enter(Phase.STOPPED)
        # Whatever ends this thread ends the engine: nobody must believe that it still serves.
        except BaseException as error:
            self._failure = error
            if not isinstance(error, SamovarError):
                log.exception("the engine ended")
            self._leave("the engine has failed and the server must be restarted")
            self._enter(Phase.FAILED)
        finally:
            self._scheduler = None
            self._close()

    def _serve(self, scheduler: Scheduler[Any, Any]) -> None:
        idle = False
        while not self._stopping.is_set():
            if scheduler.step():
                idle = False
                continue
            # Spare memory is given back once a tick has passed without work, not between two requests.
            if idle:
                scheduler.idle()
            idle = not self._wake.wait(IDLE_TICK_SECONDS)
            self._wake.clear()

    def _leave(self, message: str) -> None:
        refusal = RequestError(
            message, status=503, kind="server_error", code="unavailable", retry_after_seconds=10
        )
        self._admission.close(refusal)
        if self._scheduler is not None:
            self._scheduler.fail_all(message)

    def _enter(self, phase: Phase) -> None:
        self._phase = phase
        self._on_change(phase)
