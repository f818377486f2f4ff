"""Whether a job should wait for another one's state rather than compute the same prefix beside it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.scheduler.job import Boundary, Job
from app.snapshots.entry import BYTES_PER_TOKEN, common_tokens
from app.vocabulary import Origin


@dataclass(frozen=True, slots=True)
class UnderWay:
    """A job that runs: `prefilled` of its prompt's tokens are done, `ahead` are boundaries still to come."""

    job: Job
    prefilled: int
    ahead: Sequence[Boundary]


@dataclass(frozen=True, slots=True)
class Promise:
    """`tokens` of a waiting job's prompt that `source` computes now; `held` once its state has them."""

    tokens: int
    source: Job
    held: bool


def promise_of_snapshot(job: Job, under_way: Iterable[UnderWay]) -> Promise | None:
    """The longest prefix of `job` for which a snapshot is about to be taken."""
    promises = (
        Promise(boundary.length, run.job, held=False)
        for run in under_way
        if run.job.bucket == job.bucket
        for boundary in run.ahead
        if boundary.length < len(job.tokens)
        and (boundary.origin is Origin.SYSTEM or run.job.session == job.session)
        and job.packed.startswith(run.job.packed[: boundary.length * BYTES_PER_TOKEN])
    )
    return max(promises, key=lambda promise: promise.tokens, default=None)


def promise_of_state(job: Job, under_way: Iterable[UnderWay]) -> Promise | None:
    """The longest prefix of `job` in the state of a running job, where states can be cut back to it."""
    promises = []
    for run in under_way:
        if run.job.bucket == job.bucket and run.job.session == job.session:
            shared = min(common_tokens(job.packed, run.job.packed), len(job.tokens) - 1)
            promises.append(Promise(shared, run.job, held=run.prefilled >= shared))
    return max(promises, key=lambda promise: promise.tokens, default=None)
