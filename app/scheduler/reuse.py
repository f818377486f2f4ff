"""What a job starts from and what is kept of it: the store on one side, the decoder's states on the other."""

import logging
from dataclasses import dataclass
from typing import Generic, TypeVar

from app.bus import Emit
from app.clock import Clock
from app.errors import RestoreError, UnsupportedCacheError
from app.events import PayloadRestored, PayloadSealed
from app.scheduler.job import Boundary, Job
from app.scheduler.memory import MemoryKeeper
from app.scheduler.ports import Decoder
from app.snapshots.entry import BYTES_PER_TOKEN, Payload, TokenBytes, token_count
from app.snapshots.lookup import Candidate
from app.snapshots.store import SnapshotStore
from app.vocabulary import Miss, Origin, Rejection

P = TypeVar("P", bound=Payload)
S = TypeVar("S")

log = logging.getLogger(__name__)

DEVICE_ERRORS = (RuntimeError, MemoryError)
"""What MLX raises where it cannot allocate, among others. Whether it still works, the next step tells."""


@dataclass(frozen=True, slots=True)
class Start(Generic[S]):
    """Where a job's prefill begins: at `cached_tokens` with `state`, or at 0 with the reason why.

    `diverged_at`: with `Miss.DIVERGED`, how many tokens the prompt shares with what is kept.
    """

    cached_tokens: int
    state: S | None
    miss: Miss | None
    diverged_at: int | None = None


class Reuse(Generic[P, S]):
    """Restores stored states for jobs, and seals and stores what their prefill and reply leave behind.

    Args:
        store: where states wait.
        decoder: makes and takes states.
        store_completions: whether the state at a reply's end is stored as well as the one before it.
        truncatable: whether every state can be cut back to any earlier token.
        emit: takes `PayloadSealed` and `PayloadRestored`.
        clock: monotonic seconds.
        memory: asked before a state is copied; None where memory is not watched.
    """

    def __init__(
        self,
        store: SnapshotStore[P],
        decoder: Decoder[P, S],
        *,
        store_completions: bool,
        truncatable: bool,
        emit: Emit,
        clock: Clock,
        memory: MemoryKeeper | None = None,
    ) -> None:
        self._store = store
        self._decoder = decoder
        self._store_completions = store_completions
        self.completions_suffice = store_completions and truncatable and store.limits.enabled
        """Whether the state at a reply's end serves for all before it: no boundary is needed then."""
        self._emit = emit
        self._clock = clock
        self._memory = memory

    def start(self, job: Job) -> Start[S]:
        """The best stored state that can really be restored, else a cold start; counted either way."""
        if not job.use_snapshots:
            self._store.skip(
                Miss.OPTED_OUT, prompt_tokens=len(job.tokens), tenant=job.bucket.tenant, cause=job.trace
            )
            return Start(0, None, Miss.OPTED_OUT)
        found = self._store.find(bucket=job.bucket, session=job.session, tokens=job.packed)
        failed = 0
        for candidate in found.candidates:
            state = self._restore(job, candidate.payload, candidate.use_tokens)
            if state is not None:
                self._store.hit(found, candidate, failed_restores=failed, cause=job.trace)
                return Start(candidate.use_tokens, state, None)
            failed += 1
        miss = self._store.miss(found, failed_restores=failed, cause=job.trace)
        return Start(0, None, miss, found.common_prefix_tokens if miss is Miss.DIVERGED else None)

    def reach(self, job: Job) -> int:
        """How many tokens of a job the store can give it now. A question: nothing is counted or touched."""
        nearest = self.nearest(job)
        return nearest.use_tokens if nearest is not None else 0

    def nearest(self, job: Job) -> Candidate[P] | None:
        """The best stored state for a job. A question: nothing is counted or touched."""
        found = self._store.find(bucket=job.bucket, session=job.session, tokens=job.packed)
        return found.candidates[0] if found.candidates else None

    def restore(self, job: Job, candidate: Candidate[P]) -> S | None:
        """The state of a candidate, or None where it cannot be had; no lookup is counted."""
        return self._restore(job, candidate.payload, candidate.use_tokens)

    def keep_warmed(self, job: Job) -> Rejection | None:
        """Store the state of a warm-up that stands at its last boundary, as a guess, or say why not."""
        return self._keep(job, Origin.BOUNDARY, job.boundaries[-1].length, tentative=True)

    def _restore(self, job: Job, payload: P, n_tokens: int) -> S | None:
        began = self._clock()
        state: S | None = None
        error = None
        try:
            state = self._decoder.restore(payload, n_tokens)
        except (RestoreError, *DEVICE_ERRORS) as failure:
            error = str(failure)
            log.warning("a stored state of %d tokens could not be restored: %s", n_tokens, failure)
        self._emit(PayloadRestored(job.trace, began, self._clock(), n_tokens, payload.nbytes, error))
        return state

    def captures(self, job: Job, start: int) -> list[Boundary]:
        """Where a prefill from `start` stops to be captured: past what is restored, and worth keeping."""
        limits = self._store.limits
        ahead: list[Boundary] = []
        if not (limits.enabled and job.use_snapshots):
            return ahead
        for boundary in job.boundaries:
            if not start < boundary.length < len(job.tokens):
                continue
            if boundary.origin is Origin.BOUNDARY and self.completions_suffice:
                continue
            if boundary.length < limits.min_prefix_tokens:
                # Counted here: sealing a state only to have it refused would cost a copy.
                self._refuse(job, Rejection.TOO_SHORT, boundary.origin, boundary.length)
            else:
                ahead.append(boundary)
        return ahead

    def keep_boundary(self, job: Job, boundary: Boundary) -> bool:
        """Store the state of a job whose prefill stands at `boundary`; whether that was done."""
        return not self._is_held(job, boundary) and self._keep(job, boundary.origin, boundary.length) is None

    def _is_held(self, job: Job, boundary: Boundary) -> bool:
        """Whether another job that started cold beside this one has brought their anchor already."""
        return boundary.origin is Origin.SYSTEM and self._store.has_anchor(
            bucket=job.bucket, tokens=TokenBytes(job.packed[: boundary.length * BYTES_PER_TOKEN])
        )

    def keep_completion(self, job: Job, generated_tokens: int) -> bool:
        """Store the state at a reply's end, where that is wanted; whether that was done."""
        return (
            self._store_completions
            and self._store.limits.enabled
            and job.use_snapshots
            and self._keep(job, Origin.COMPLETION, len(job.tokens) + generated_tokens) is None
        )

    def keep_running(self, job: Job) -> None:
        """Store what a running job's state holds by now, for others that share its prompt."""
        self._keep(job, Origin.BOUNDARY, len(job.tokens))

    def keep_interrupted(self, job: Job) -> None:
        """Store what a job that ends before its time has computed, where any part of it can be reused.

        A client that went away often comes back with the same prompt.
        """
        if self.completions_suffice and job.use_snapshots:
            self._keep(job, Origin.COMPLETION, len(job.tokens))

    def _not_copied(
        self, job: Job, reason: Rejection, origin: Origin, n_tokens: int, began: float
    ) -> Rejection:
        self._emit(PayloadSealed(origin, job.trace, began, self._clock(), n_tokens, None))
        self._refuse(job, reason, origin, n_tokens)
        return reason

    def _keep(self, job: Job, origin: Origin, n_tokens: int, *, tentative: bool = False) -> Rejection | None:
        if self._memory is not None and not self._memory.may_copy(n_tokens, guess=tentative):
            self._refuse(job, Rejection.LOW_MEMORY, origin, n_tokens)
            return Rejection.LOW_MEMORY
        began = self._clock()
        try:
            sealed = self._decoder.seal(job.id)
        except UnsupportedCacheError as refusal:
            log.info("a state is not stored: %s", refusal)
            return self._not_copied(job, Rejection.UNSUPPORTED, origin, n_tokens, began)
        except DEVICE_ERRORS as error:
            # A copy that there was no memory for leaves the running states as they were.
            log.warning("a state of %d tokens could not be copied out and is not stored: %s", n_tokens, error)
            return self._not_copied(job, Rejection.LOW_MEMORY, origin, n_tokens, began)
        payload = sealed.payload
        n_tokens = token_count(sealed.tokens)
        self._emit(PayloadSealed(origin, job.trace, began, self._clock(), n_tokens, payload.nbytes))
        return self._store.insert(
            bucket=job.bucket,
            session=None if origin is Origin.SYSTEM else job.session,
            origin=origin,
            tokens=sealed.tokens,
            payload=payload,
            tentative=tentative,
            cause=job.trace,
        )

    def _refuse(self, job: Job, reason: Rejection, origin: Origin, n_tokens: int) -> None:
        self._store.refuse(
            reason,
            origin=origin,
            session=job.session,
            tokens=n_tokens,
            nbytes=0,
            tenant=job.bucket.tenant,
            cause=job.trace,
        )

    def sweep(self) -> None:
        """Drop what has expired."""
        self._store.sweep()
