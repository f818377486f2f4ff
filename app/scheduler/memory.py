"""Keeps requests and snapshots together within memory; snapshots give way first. Engine thread only."""

import logging
from collections.abc import Callable
from typing import Any

from app.clock import Clock
from app.scheduler.job import Job, JobId
from app.scheduler.memory_plan import MemoryPlan
from app.snapshots.store import SnapshotStore

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""How often the process is measured; asking the kernel costs more than a step of a small model's."""

RELIEF_SECONDS = 10.0
"""How long the system may take to show what was given back, before more is given up."""


class MemoryKeeper:
    """A ledger of what is promised to the requests that run, beside what the store holds.

    Args:
        plan: what there is.
        store: gives up snapshots, the least worth keeping first.
        footprint: the bytes that the process has in use, as the system counts them.
        relieve: gives free buffers back to the system.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        plan: MemoryPlan,
        store: SnapshotStore[Any],
        *,
        footprint: Callable[[], int],
        relieve: Callable[[], None],
        clock: Clock,
    ) -> None:
        self._plan = plan
        self._store = store
        self._footprint = footprint
        self._relieve = relieve
        self._clock = clock
        self._promised: dict[JobId, int] = {}
        """Tokens of each job that runs, in the order they started."""
        self._promised_bytes = 0
        """What those tokens weigh: asked for at each step, and changed at few."""
        self._look_at = clock()

    def admits(self, job: Job) -> bool:
        """Whether a job fits beside what runs, now that as many snapshots as that takes have given way."""
        return self._make_room(self._plan.state_bytes(self._plan.promised_tokens(job)))

    def begin(self, job: Job) -> None:
        """Reckon with a job from now on."""
        self._promise(job.id, self._plan.promised_tokens(job))

    def grow(self, job: JobId, tokens: int) -> None:
        """A job's state has so many tokens; only what was not promised counts."""
        if tokens > self._promised.get(job, tokens):
            self._promise(job, tokens)

    def end(self, job: JobId) -> None:
        """A job's state is gone. Unknown jobs are ignored."""
        tokens = self._promised.pop(job, None)
        if tokens is not None:
            self._promised_bytes -= self._plan.state_bytes(tokens)

    def one_too_many(self) -> JobId | None:
        """Make room for what grew beyond its promise; the job to end where snapshots were not enough.

        It is the one that started last; a job that runs alone is let go on, since its length is limited.
        """
        if self._make_room(0) or len(self._promised) < 2:  # noqa: PLR2004 - two are not one alone
            return None
        return next(reversed(self._promised))

    def may_copy(self, tokens: int, *, guess: bool) -> bool:
        """Whether a state of so many tokens may be copied out. Nothing gives way to a mere guess.

        A guess is computed beside what is promised, so that it needs its bytes twice.
        """
        nbytes = self._plan.state_bytes(tokens)
        return self._missing(2 * nbytes) == 0 if guess else self._make_room(nbytes)

    def look(self) -> None:
        """Now and then, compare the process itself with its limit; what is too much is given up.

        It only ever takes from snapshots: the system's number can stay high without reason, and requests
        that were refused for it might be refused for ever.
        """
        now = self._clock()
        if now < self._look_at:
            return
        self._look_at = now + LOOK_SECONDS
        if self._excess() <= 0:
            return
        self._relieve()
        if (excess := self._excess()) > 0:
            freed = self._store.shed(excess)
            self._relieve()
            self._look_at = now + RELIEF_SECONDS
            log.warning(
                "the process uses %d bytes more than its limit without the headroom; snapshots of %d bytes"
                " gave way",
                excess,
                freed,
            )

    def _excess(self) -> int:
        return self._footprint() - (self._plan.limit_bytes - self._plan.headroom_bytes)

    def _make_room(self, nbytes: int) -> bool:
        missing = self._missing(nbytes)
        if missing == 0:
            return True
        if missing > self._store.occupancy().nbytes:
            return False
        self._store.shed(missing)
        return True

    def _missing(self, nbytes: int) -> int:
        held = self._store.occupancy().nbytes
        return max(self._promised_bytes + held + nbytes - self._plan.states_bytes, 0)

    def _promise(self, job: JobId, tokens: int) -> None:
        before = self._promised.get(job)
        if before is not None:
            self._promised_bytes -= self._plan.state_bytes(before)
        self._promised[job] = tokens
        self._promised_bytes += self._plan.state_bytes(tokens)
