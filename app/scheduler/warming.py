"""Runs warm-ups while nothing else runs: the next turn's history, computed before it is asked for.

A warm-up is a job whose last boundary is what the next prompt will begin with, and whose last token only
stands behind it, because a prompt's last token is run apart. No token is generated. Engine thread only.
"""

import logging
from dataclasses import dataclass
from typing import Generic, TypeVar

from app.bus import Emit
from app.clock import Clock
from app.events import WarmupEnded
from app.scheduler.job import Job
from app.scheduler.ports import Decoder
from app.scheduler.reuse import Reuse
from app.scheduler.warmup_queue import WarmupQueue
from app.snapshots.entry import Payload
from app.vocabulary import Warmup

P = TypeVar("P", bound=Payload)
S = TypeVar("S")

log = logging.getLogger(__name__)

CHUNK_TOKENS = 128
"""Tokens a step: a request that arrives waits for one such step at most."""

WORTHWHILE_TOKENS = 16
"""A state that saves the next turn fewer is not worth its place."""


@dataclass(slots=True)
class _Run:
    """A warm-up on the decoder: `started_at` tokens were restored, `done` are in the state."""

    job: Job
    began: float
    started_at: int
    done: int


class Warming(Generic[P, S]):
    """At most one warm-up at a time, on a decoder that has nothing else to do.

    Args:
        queue: where warm-ups come from.
        decoder: shared with the scheduler, which calls `step` only while it has no job there.
        reuse: what warm-ups start from and leave behind.
        emit: takes `WarmupEnded`.
        clock: monotonic seconds.
    """

    def __init__(
        self, queue: WarmupQueue, decoder: Decoder[P, S], reuse: Reuse[P, S], *, emit: Emit, clock: Clock
    ) -> None:
        self._queue = queue
        self._decoder = decoder
        self._reuse = reuse
        self._emit = emit
        self._clock = clock
        self._run: _Run | None = None

    def step(self) -> bool:
        """Compute one chunk; False where there is nothing to warm up. What the decoder raises is raised."""
        run = self._run or self._begin()
        if run is None:
            return False
        output = self._decoder.step()
        for _, progress in output.prefilled:
            run.done = progress.done
        if output.segment_ends and run.done == run.job.boundaries[-1].length:
            rejection = self._reuse.keep_warmed(run.job)
            self._decoder.discard([run.job.id])
            self._end(run, Warmup.RUN if rejection is None else Warmup.REJECTED)
        return True

    def give_way(self, job: Job) -> None:
        """A job starts: what is under way leaves the decoder; its own session needs no warm-up any more."""
        if self._run is not None:
            run = self._run
            self._decoder.discard([run.job.id])
            self._end(run, Warmup.PREEMPTED)
            self._queue.put_back(run.job)
        self._queue.withdraw(job)

    def fail(self) -> None:
        """The decoder has failed; what was under way is lost."""
        if self._run is not None:
            self._end(self._run, Warmup.FAILED)

    def _begin(self) -> _Run | None:
        """Admit the next warm-up that saves something; those that save nothing are told and forgotten."""
        while (job := self._queue.take()) is not None:
            began, target = self._clock(), job.boundaries[-1].length
            nearest = self._reuse.nearest(job)
            if nearest is None:
                self._skip(job, Warmup.NO_ANCESTOR)
            elif target - nearest.use_tokens < WORTHWHILE_TOKENS:
                self._skip(job, Warmup.COVERED)
            elif (state := self._reuse.restore(job, nearest)) is None:
                self._skip(job, Warmup.FAILED)
            else:
                start = nearest.use_tokens
                self._run = _Run(job, began, start, start)
                stops = [*range(start + CHUNK_TOKENS, target, CHUNK_TOKENS), target]
                self._decoder.admit(job, start=start, state=state, stops=stops)
                return self._run
        return None

    def _skip(self, job: Job, outcome: Warmup) -> None:
        self._emit(WarmupEnded(outcome, job.trace, None, self._clock(), job.boundaries[-1].length))

    def _end(self, run: _Run, outcome: Warmup) -> None:
        self._run = None
        target = run.job.boundaries[-1].length
        self._emit(
            WarmupEnded(outcome, run.job.trace, run.began, self._clock(), target, run.done - run.started_at)
        )
