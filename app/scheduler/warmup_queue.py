"""Warm-ups that wait for idle time, bounded, one a session. It runs none and knows no decoder."""

import threading
from collections import OrderedDict
from collections.abc import Callable

from app.bus import Emit
from app.clock import Clock
from app.events import WarmupEnded
from app.scheduler.job import Job
from app.vocabulary import Warmup

MAX_PENDING = 8
"""More would be stale before an idle moment is long enough for all of them."""


class WarmupQueue:
    """Warm-ups in order of arrival. Offered from any thread, taken by the engine thread.

    Args:
        wake: called after one was added, so that an idle engine looks.
        emit: told of those that will never run.
        clock: monotonic seconds.
    """

    def __init__(self, *, wake: Callable[[], None], emit: Emit, clock: Clock) -> None:
        self._wake = wake
        self._emit = emit
        self._clock = clock
        self._lock = threading.Lock()
        self._pending: OrderedDict[tuple[str, str], Job] = OrderedDict()

    def __len__(self) -> int:
        return len(self._pending)

    def offer(self, job: Job) -> None:
        """Queue a warm-up, in the place of its session's last one; without room the oldest is dropped."""
        dropped = None
        with self._lock:
            superseded = self._pending.pop(_session(job), None)
            if len(self._pending) >= MAX_PENDING:
                dropped = self._pending.popitem(last=False)[1]
            self._pending[_session(job)] = job
        self._tell(superseded, Warmup.SUPERSEDED)
        self._tell(dropped, Warmup.DROPPED)
        self._wake()

    def take(self) -> Job | None:
        """The warm-up that waits longest, or None."""
        with self._lock:
            return self._pending.popitem(last=False)[1] if self._pending else None

    def put_back(self, job: Job) -> None:
        """Let a warm-up that was interrupted be the next one, unless its session has a newer one by now."""
        with self._lock:
            if _session(job) in self._pending:
                outcome = Warmup.SUPERSEDED
            elif len(self._pending) >= MAX_PENDING:
                outcome = Warmup.DROPPED
            else:
                self._pending[_session(job)] = job
                self._pending.move_to_end(_session(job), last=False)
                return
        self._tell(job, outcome)

    def withdraw(self, job: Job) -> None:
        """Forget what waits for the session of `job`: the session has gone on."""
        with self._lock:
            withdrawn = self._pending.pop(_session(job), None)
        self._tell(withdrawn, Warmup.SUPERSEDED)

    def _tell(self, job: Job | None, outcome: Warmup) -> None:
        if job is not None:
            self._emit(WarmupEnded(outcome, job.trace, None, self._clock(), job.boundaries[-1].length))


def _session(job: Job) -> tuple[str, str]:
    return (job.bucket.tenant, job.session)
