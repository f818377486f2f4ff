"""One log line a request, made of what HTTP says of it and what the engine says of its jobs."""

from collections.abc import Sequence

from structlog.typing import FilteringBoundLogger

from app.events import GenerationEnded, RequestEnded
from app.snapshots.stats import HIT
from app.telemetry.snapshot_facts import SESSION_HASH, Facts, HashSession
from app.telemetry.stages import stages_of
from app.telemetry.trace_fields import trace_fields
from app.vocabulary import Outcome

MISS = "miss"


class AccessLines:
    """Writes the line of a request that has ended with all its jobs.

    Args:
        logger: where lines go.
        hash_session: names a session in `session.hash`, as spans do.
    """

    def __init__(self, logger: FilteringBoundLogger, *, hash_session: HashSession) -> None:
        self._logger = logger
        self._hash_session = hash_session

    def write(self, request: RequestEnded, generations: Sequence[GenerationEnded]) -> None:
        """Write it; a failure of the server's is a warning."""
        write = self._logger.warning if request.outcome is Outcome.FAILED else self._logger.info
        write(
            "request",
            route=request.route,
            status=request.status,
            outcome=request.outcome.value,
            seconds=request.seconds,
            request_id=request.request_id,
            **({} if request.key is None else {"key": request.key}),
            **self._facts(generations),
        )

    def _facts(self, generations: Sequence[GenerationEnded]) -> Facts:
        """What the jobs did: tokens added up, each stage as long as the longest; nothing without jobs."""
        if not generations:
            return {}
        first = generations[0]
        seconds: dict[str, float] = {}
        for ended in generations:
            for stage in stages_of(ended):
                seconds[stage.name] = max(stage.seconds, seconds.get(stage.name, 0.0))
        facts: Facts = {
            "job_id": first.job_id,
            "finish_reason": first.reason.value,
            **{f"{name}_seconds": value for name, value in seconds.items()},
            "prompt_tokens": sum(ended.prompt_tokens for ended in generations),
            "cached_tokens": sum(ended.cached_tokens for ended in generations),
            "stored_tokens": sum(ended.stored_tokens for ended in generations),
            "completion_tokens": sum(ended.generated_tokens for ended in generations),
        }
        if first.started is not None:
            facts["cache"] = HIT if first.miss is None else MISS
        if first.miss is not None:
            facts["miss"] = first.miss.value
        if first.session is not None:
            facts[SESSION_HASH] = self._hash_session(first.session)
        if first.error is not None:
            facts["error"] = first.error
        return facts | trace_fields(first.cause)
