"""A job that the scheduler has started: how far it is, and what is told of it once it has ended."""

from dataclasses import dataclass, field

from app.events import GenerationEnded
from app.scheduler.job import Boundary, Job
from app.vocabulary import FinishReason, Miss


@dataclass(slots=True)
class Run:
    """A job on its way. `ahead` are the boundaries its prefill has not reached yet, in order."""

    job: Job
    started: float | None = None
    cached_tokens: int = 0
    miss: Miss | None = None
    ahead: list[Boundary] = field(default_factory=list)
    prefilled: int = 0
    first_token: float | None = None
    generated_tokens: int = 0
    stored: int = 0
    """How much of the prompt this run has put into the store, from its beginning on."""

    def ended(self, reason: FinishReason, error: str | None, at: float) -> GenerationEnded:
        """Its whole life, as of its end."""
        return GenerationEnded(
            job_id=self.job.id,
            reason=reason,
            cause=self.job.trace,
            queued=self.job.submitted,
            started=self.started,
            first_token=self.first_token,
            ended=at,
            prompt_tokens=len(self.job.tokens),
            cached_tokens=self.cached_tokens,
            generated_tokens=self.generated_tokens,
            miss=self.miss,
            error=error,
            session=self.job.session,
            stored_tokens=max(self.stored - self.cached_tokens, 0),
        )
