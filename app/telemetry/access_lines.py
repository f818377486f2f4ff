"""One log line a request, made of what HTTP says of it and what the engine says of its jobs.

It knows neither HTTP nor the engine: both speak by events, which may come in either order.
"""

import threading
from collections.abc import Sequence

from structlog.typing import FilteringBoundLogger

from app.events import GenerationEnded, Outcome, RequestEnded
from app.snapshots.stats import HIT
from app.telemetry.snapshot_facts import SESSION_HASH, Facts, HashSession
from app.telemetry.stages import stages_of
from app.telemetry.trace_fields import trace_fields

MAX_UNCLAIMED = 4096
"""Most generations kept for requests that have not ended; more can only be jobs that no request waits for."""

MISS = "miss"


class AccessLines:
    """Writes a request's line once the request and all its jobs have ended, on the thread that told the last.

    A job's end usually comes first. Where the client went away, its request has ended before the engine
    comes to the job.

    Args:
        logger: where lines go.
        hash_session: names a session in `session.hash`, as spans do.
    """

    def __init__(self, logger: FilteringBoundLogger, *, hash_session: HashSession) -> None:
        self._logger = logger
        self._hash_session = hash_session
        self._lock = threading.Lock()
        self._generations: dict[str, GenerationEnded] = {}
        self._waiting: dict[str, RequestEnded] = {}

    def generation_ended(self, ended: GenerationEnded) -> None:
        """Keep it for its request, or write the line of a request that waits for nothing else."""
        with self._lock:
            self._generations[ended.job_id] = ended
            if len(self._generations) > MAX_UNCLAIMED:
                del self._generations[next(iter(self._generations))]
            request = self._waiting.get(ended.job_id)
            generations = self._taken(request)
        if request is not None and generations is not None:
            self._write(request, generations)

    def request_ended(self, ended: RequestEnded) -> None:
        """Write its line, or wait for its jobs."""
        with self._lock:
            generations = self._taken(ended)
            if generations is None:
                self._waiting.update(dict.fromkeys(ended.job_ids, ended))
        if generations is not None:
            self._write(ended, generations)

    def _taken(self, request: RequestEnded | None) -> Sequence[GenerationEnded] | None:
        """The ends of all jobs of a request, no longer kept; None while one is missing."""
        if request is None or not self._generations.keys() >= set(request.job_ids):
            return None
        for job_id in request.job_ids:
            self._waiting.pop(job_id, None)
        return [self._generations.pop(job_id) for job_id in request.job_ids]

    def _write(self, request: RequestEnded, generations: Sequence[GenerationEnded]) -> None:
        write = self._logger.warning if request.outcome is Outcome.FAILED else self._logger.info
        write(
            "request",
            route=request.route,
            status=request.status,
            outcome=request.outcome.value,
            seconds=request.seconds,
            request_id=request.request_id,
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
