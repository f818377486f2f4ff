"""Runs jobs on a decoder by hand and keeps what came out."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from app.engine.decoder import BatchDecoder
from app.engine.payload import SealedState
from app.scheduler.job import Generated, Job, JobId, Prefilled, TokenLogprob
from app.scheduler.ports import Sealed


@dataclass
class Ran:
    """What a job did: its tokens, its prefill progress, its state at each segment's end and at its own."""

    generated: list[Generated] = field(default_factory=list)
    prefilled: list[Prefilled] = field(default_factory=list)
    at_stops: list[Sealed[SealedState]] = field(default_factory=list)
    ended_at: Sealed[SealedState] | None = None

    @property
    def at_end(self) -> Sealed[SealedState]:
        assert self.ended_at is not None, "the job has not ended"
        return self.ended_at

    @property
    def logprobs(self) -> list[TokenLogprob]:
        return [each.logprob for each in self.generated if each.logprob is not None]

    @property
    def tokens(self) -> list[int]:
        return [each.token for each in self.generated]


def run_all(
    decoder: BatchDecoder,
    jobs: Sequence[tuple[Job, Sealed[SealedState] | None, Sequence[int]]],
    *,
    use_tokens: int | None = None,
) -> dict[JobId, Ran]:
    """Run (job, state to start from, stops) together to the end; `use_tokens` cuts the states back."""
    ran: dict[JobId, Ran] = defaultdict(Ran)
    left = set()
    for job, start_from, stops in jobs:
        start, state = 0, None
        if start_from is not None:
            start = use_tokens or start_from.payload.n_tokens
            state = decoder.restore(start_from.payload, start)
        decoder.admit(job, start=start, state=state, stops=stops)
        left.add(job.id)
    while left:
        output = decoder.step()
        assert not output.failed, output.failed
        for job_id, progress in output.prefilled:
            ran[job_id].prefilled.append(progress)
        for job_id in output.segment_ends:
            ran[job_id].at_stops.append(decoder.seal(job_id))
        for job_id, generated in output.generated:
            ran[job_id].generated.append(generated)
            if generated.finish is not None:
                ran[job_id].ended_at = decoder.seal(job_id)
                decoder.release(job_id)
                left.discard(job_id)
    return ran


def run(
    decoder: BatchDecoder,
    job: Job,
    start_from: Sealed[SealedState] | None = None,
    *,
    stops: Sequence[int] = (),
    use_tokens: int | None = None,
) -> Ran:
    """Run one job alone to its end."""
    return run_all(decoder, [(job, start_from, stops)], use_tokens=use_tokens)[job.id]
