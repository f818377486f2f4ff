"""The last requests and what became of them, as numbers and names: for a page, never for a count."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.events import Event, GenerationEnded, RequestEnded
from app.telemetry.request_ends import RequestEnds
from app.telemetry.snapshot_facts import HashSession
from app.vocabulary import Miss, Outcome

MOST_REQUESTS = 50
"""As many as a person looks through; whoever wants all of them reads the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentRequest:
    """One answered request. Tokens are those of all its jobs; without a job there are none.

    `hit`: whether it started from a stored state, None where it never started; `miss`: why it did not.
    `session_hash`: as in spans and log lines, None where it named no session.
    """

    ended_unix_seconds: float
    request_id: str | None
    route: str
    status: int
    outcome: Outcome
    hit: bool | None
    miss: Miss | None
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    time_to_first_token_seconds: float | None
    seconds: float
    session_hash: str | None


class RecentRequests:
    """A listener that keeps the last requests. Called and read on any thread.

    Args:
        hash_session: names a session, as spans do.
        unix_seconds: wall time.
    """

    def __init__(self, *, hash_session: HashSession, unix_seconds: Callable[[], float]) -> None:
        self._hash_session = hash_session
        self._unix_seconds = unix_seconds
        self._ends = RequestEnds(self._keep)
        self._lock = threading.Lock()
        self._kept: deque[RecentRequest] = deque(maxlen=MOST_REQUESTS)

    def __call__(self, event: Event) -> None:
        """Take note of an end; other events are none of its business."""
        match event:
            case GenerationEnded():
                self._ends.generation_ended(event)
            case RequestEnded():
                self._ends.request_ended(event)
            case _:
                pass

    def newest_first(self) -> Sequence[RecentRequest]:
        """The last requests."""
        with self._lock:
            return tuple(reversed(self._kept))

    def _keep(self, request: RequestEnded, generations: Sequence[GenerationEnded]) -> None:
        first = generations[0] if generations else None
        waits = [ended.first_token - ended.queued for ended in generations if ended.first_token is not None]
        kept = RecentRequest(
            ended_unix_seconds=self._unix_seconds(),
            request_id=request.request_id,
            route=request.route,
            status=request.status,
            outcome=request.outcome,
            hit=None if first is None or first.started is None else first.miss is None,
            miss=None if first is None else first.miss,
            prompt_tokens=sum(ended.prompt_tokens for ended in generations),
            cached_tokens=sum(ended.cached_tokens for ended in generations),
            completion_tokens=sum(ended.generated_tokens for ended in generations),
            time_to_first_token_seconds=min(waits, default=None),
            seconds=request.seconds,
            session_hash=self._hash_session(first.session) if first is not None and first.session else None,
        )
        with self._lock:
            self._kept.append(kept)
