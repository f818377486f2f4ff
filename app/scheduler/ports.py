"""What the scheduler needs of an engine, and of whoever waits for its answers."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from app.scheduler.job import Delta, Failed, Generated, Job, JobId, Prefilled
from app.snapshots.entry import Payload, TokenBytes

P = TypeVar("P", bound=Payload)
State = TypeVar("State")


@dataclass(frozen=True, slots=True)
class StepOutput:
    """What one engine step did.

    `segment_ends`: jobs whose prefill stands exactly at a segment's end now; their state may be sealed
    until the next step. `generated`: one entry a running row. `failed`: rows that cannot go on, in place of
    a token of theirs; they are still to be discarded.
    """

    prefilled: Sequence[tuple[JobId, Prefilled]]
    segment_ends: Sequence[JobId]
    generated: Sequence[tuple[JobId, Generated]]
    failed: Sequence[tuple[JobId, Failed]] = ()


@dataclass(frozen=True, slots=True)
class Sealed(Generic[P]):
    """A payload and the exact tokens its state describes."""

    payload: P
    tokens: TokenBytes


class Decoder(Protocol[P, State]):
    """A batch generator, used on one thread. After `step` raised, only `rebuild` or `close` may follow."""

    def admit(self, job: Job, *, start: int, state: State | None, stops: Sequence[int]) -> None:
        """Queue a job for prefill from token `start` on (0 and no state: cold).

        `stops` are the prompt positions after `start`, ascending, at which a segment ends.
        """
        ...

    def step(self) -> StepOutput:
        """One prefill chunk and one decode step for all that is admitted."""
        ...

    def discard(self, jobs: Collection[JobId]) -> None:
        """Forget jobs at whatever stage they are; unknown ones are ignored."""
        ...

    def seal(self, job: JobId) -> Sealed[P]:
        """Copy a job's state out, owned and measured. For a job at a segment end, or just finished.

        Raises:
            UnsupportedCacheError: the state is of a kind that cannot be sealed.
        """
        ...

    def restore(self, payload: P, n_tokens: int) -> State:
        """A private state of the first `n_tokens` tokens of a sealed payload, which stays as it is.

        Raises:
            RestoreError: it cannot be had.
        """
        ...

    def release(self, job: JobId) -> None:
        """Drop what was kept of a finished job for sealing."""
        ...

    def rebuild(self) -> None:
        """Start over with nothing admitted, after `step` raised."""
        ...

    def idle(self) -> None:
        """Give back memory that only a busy engine needs."""
        ...

    def close(self) -> None:
        """Release everything and end this thread's use of the device."""
        ...


class DeltaSink(Protocol):
    """Takes what one scheduler step has to say to all its jobs, in one call."""

    def __call__(self, deltas: Sequence[tuple[JobId, Delta]]) -> None:
        """Must neither block nor raise; called on the engine thread."""
        ...
