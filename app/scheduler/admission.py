"""The door to the engine: a bounded queue any thread may add to, and the wishes to end a job early."""

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto

from app.errors import RequestError
from app.scheduler.job import Job, JobId

_RETRY_AT_LEAST_SECONDS = 1
_RETRY_AT_MOST_SECONDS = 60


class Ending(Enum):
    """Why somebody wants a job to end before the model ends it."""

    CANCELLED = auto()
    """The client went away; nothing of the job is wanted any more."""
    STOPPED = auto()
    """The text side found a stop string; the reply is complete."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What has been asked since the last time: jobs to end, those of them that never started included."""

    withdrawn: tuple[Job, ...]
    endings: tuple[tuple[JobId, Ending], ...]


class Admission:
    """Waiting jobs in order of arrival. Offered from any thread, taken by the engine thread.

    Args:
        max_waiting: how many jobs may wait; one more is refused with 429.
        wake: called after anything changed, so that an idle engine looks.
    """

    def __init__(self, *, max_waiting: int, wake: Callable[[], None]) -> None:
        self._max_waiting = max_waiting
        self._wake = wake
        self._lock = threading.Lock()
        self._news = threading.Condition(self._lock)
        self._expected = 0
        self._waiting: OrderedDict[JobId, Job] = OrderedDict()
        self._withdrawn: list[Job] = []
        self._endings: dict[JobId, Ending] = {}
        self._refusal: RequestError | None = None
        self._typical_seconds = float(_RETRY_AT_LEAST_SECONDS)

    @property
    def max_waiting(self) -> int:
        """How many jobs may wait."""
        return self._max_waiting

    def __len__(self) -> int:
        return len(self._waiting)

    def offer(self, job: Job) -> None:
        """Queue a job.

        Raises:
            RequestError: 429 when the queue is full, or the refusal given to `close`.
        """
        with self._lock:
            if self._refusal is not None:
                raise self._refusal
            if len(self._waiting) >= self._max_waiting:
                raise RequestError(
                    f"the server is busy: {self._max_waiting} requests are already waiting; try again later",
                    status=429,
                    kind="rate_limit_error",
                    code="queue_full",
                    retry_after_seconds=self._retry_after_seconds(),
                )
            self._waiting[job.id] = job
            self._news.notify_all()
        self._wake()

    @contextmanager
    def expecting(self) -> Iterator[None]:
        """Say that a job is being prepared; by the end of the block it has been offered, or never will be."""
        with self._lock:
            self._expected += 1
        try:
            yield
        finally:
            with self._lock:
                self._expected -= 1
                self._news.notify_all()
            # Where it was never offered, the engine may go on with what it put off.
            self._wake()

    @property
    def expects_jobs(self) -> bool:
        """Whether a job is being prepared."""
        return self._expected > 0

    def gather(self, *, most: int, seconds: float) -> None:
        """Let jobs that are being prepared join those that wait, so that they are prefilled together.

        Returns at once where none is expected; otherwise when none is any more, when `most` jobs wait, or
        after `seconds`.
        """
        with self._lock:
            if self._waiting and self._expected:
                self._news.wait_for(lambda: not self._expected or len(self._waiting) >= most, timeout=seconds)

    def end(self, job: JobId, how: Ending) -> None:
        """Ask for a job's end, wherever it is. Unknown and ended jobs are ignored when the wish is read."""
        with self._lock:
            waiting = self._waiting.pop(job, None)
            if waiting is not None:
                self._withdrawn.append(waiting)
            else:
                self._endings[job] = how
        self._wake()

    def take(self, ready: Callable[[Job], bool] = lambda _job: True) -> Job | None:
        """Of the jobs that are `ready`, the one that waits longest, or None. The others keep their place."""
        with self._lock:
            waiting = tuple(self._waiting.values())
        for job in waiting:
            if ready(job):
                with self._lock:
                    # It may have been withdrawn meanwhile.
                    if self._waiting.pop(job.id, None) is not None:
                        return job
        return None

    def overdue(self, before: float) -> list[Job]:
        """Take the jobs that were submitted before that time and still wait, for somebody to turn away."""
        with self._lock:
            late = [job for job in self._waiting.values() if job.submitted < before]
            for job in late:
                del self._waiting[job.id]
            return late

    def wishes(self) -> Wishes:
        """Everything asked since the last call."""
        with self._lock:
            if not (self._withdrawn or self._endings):
                return Wishes((), ())
            wishes = Wishes(tuple(self._withdrawn), tuple(self._endings.items()))
            self._withdrawn.clear()
            self._endings.clear()
            return wishes

    def close(self, refusal: RequestError) -> None:
        """Refuse every further job with `refusal`; those that wait stay."""
        with self._lock:
            self._refusal = refusal
        self._wake()

    def observe(self, seconds: float) -> None:
        """Learn from a job that ended how long one takes, for `Retry-After`."""
        self._typical_seconds += (seconds - self._typical_seconds) / 8

    def _retry_after_seconds(self) -> int:
        """About the time in which one place in the queue becomes free."""
        seconds = math.ceil(self._typical_seconds)
        return min(max(seconds, _RETRY_AT_LEAST_SECONDS), _RETRY_AT_MOST_SECONDS)
