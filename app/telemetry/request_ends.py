"""Brings together what HTTP says of a request's end and what the engine says of its jobs' ends.

It knows neither HTTP nor the engine: both speak by events, which may come in either order.
"""

import threading
from collections.abc import Callable, Sequence

from app.events import GenerationEnded, RequestEnded

MAX_UNCLAIMED = 4096
"""Most generations kept for requests that have not ended; more can only be jobs that no request waits for."""


class RequestEnds:
    """Tells of a request once it and all its jobs have ended, on the thread that told the last.

    A job's end usually comes first. Where the client went away, its request has ended before the engine
    comes to the job.

    Args:
        tell: given the request, and the ends of its jobs in the order in which they were submitted.
    """

    def __init__(self, tell: Callable[[RequestEnded, Sequence[GenerationEnded]], None]) -> None:
        self._tell = tell
        self._lock = threading.Lock()
        self._generations: dict[str, GenerationEnded] = {}
        self._waiting: dict[str, RequestEnded] = {}

    def generation_ended(self, ended: GenerationEnded) -> None:
        """Keep it for its request, or tell of a request that waits for nothing else."""
        with self._lock:
            self._generations[ended.job_id] = ended
            if len(self._generations) > MAX_UNCLAIMED:
                del self._generations[next(iter(self._generations))]
            request = self._waiting.get(ended.job_id)
            generations = self._taken(request)
        if request is not None and generations is not None:
            self._tell(request, generations)

    def request_ended(self, ended: RequestEnded) -> None:
        """Tell of it, or wait for its jobs."""
        with self._lock:
            generations = self._taken(ended)
            if generations is None:
                self._waiting.update(dict.fromkeys(ended.job_ids, ended))
        if generations is not None:
            self._tell(ended, generations)

    def _taken(self, request: RequestEnded | None) -> Sequence[GenerationEnded] | None:
        """The ends of all jobs of a request, no longer kept; None while one is missing."""
        if request is None or not self._generations.keys() >= set(request.job_ids):
            return None
        for job_id in request.job_ids:
            self._waiting.pop(job_id, None)
        return [self._generations.pop(job_id) for job_id in request.job_ids]
