"""A scheduler over a hash-chain decoder and a real store, stepped by hand."""

from collections import defaultdict
from collections.abc import Sequence
from math import inf
from typing import Any

from app.events import Event, GenerationEnded
from app.scheduler.admission import Admission
from app.scheduler.core import Scheduler
from app.scheduler.job import Delta, Failed, Generated, Job, JobId, Started
from app.scheduler.memory import MemoryKeeper
from app.scheduler.memory_plan import MemoryPlan
from app.scheduler.reuse import Reuse
from app.scheduler.warming import Warming
from app.scheduler.warmup_queue import WarmupQueue
from app.snapshots.limits import Limits
from app.snapshots.stats import Tally
from app.snapshots.store import SnapshotStore
from app.vocabulary import FinishReason
from tests.support.clock import ManualClock
from tests.support.hash_chain import HashChainDecoder


class ServingRoom:
    """Everything between a job and its deltas, with nothing hidden.

    Args:
        decoder: the hash chain to run, or any other decoder.
        limits: of the store.
        max_running, max_waiting: of the scheduler.
        store_completions: whether replies' ends are stored.
        shared_prefix_tokens: what is worth waiting for.
        truncatable: whether states can be cut back at any time; the hash chain says it itself.
        plan: what memory there is; None watches none. `footprint` is what the process takes, set by hand.
        queue_seconds: of the scheduler.
    """

    def __init__(
        self,
        decoder: Any = None,
        *,
        limits: Limits | None = None,
        max_running: int = 4,
        max_waiting: int = 100,
        store_completions: bool = True,
        shared_prefix_tokens: int = 32,
        truncatable: bool | None = None,
        plan: MemoryPlan | None = None,
        queue_seconds: float = inf,
    ) -> None:
        self.clock = ManualClock()
        self.decoder: Any = decoder or HashChainDecoder()
        self.events: list[Event] = []
        self.tally = Tally()
        self.deltas: dict[JobId, list[Delta]] = defaultdict(list)
        self.gaps: list[tuple[float, int]] = []
        self.tokens: list[tuple[int, int]] = []
        self.store: SnapshotStore[Any] = SnapshotStore(
            limits or Limits(capacity_bytes=10**9, max_entries=1000, ttl_seconds=None, min_prefix_tokens=1),
            clock=self.clock,
            emit=self.hear,
        )
        self.admission = Admission(max_waiting=max_waiting, wake=lambda: None)
        self.warmups = WarmupQueue(wake=lambda: None, emit=self.hear, clock=self.clock)
        self.footprint = 0
        memory = (
            None
            if plan is None
            else MemoryKeeper(
                plan,
                self.store,
                footprint=lambda: self.footprint,
                relieve=self.decoder.idle,
                clock=self.clock,
            )
        )
        reuse: Reuse[Any, Any] = Reuse(
            self.store,
            self.decoder,
            store_completions=store_completions,
            truncatable=self.decoder.truncatable if truncatable is None else truncatable,
            emit=self.hear,
            clock=self.clock,
            memory=memory,
        )
        self.scheduler: Scheduler[Any, Any] = Scheduler(
            self.decoder,
            reuse,
            self.admission,
            warming=Warming(self.warmups, self.decoder, reuse, emit=self.hear, clock=self.clock),
            max_running=max_running,
            shared_prefix_tokens=shared_prefix_tokens,
            queue_seconds=queue_seconds,
            memory=memory,
            deliver=self.take,
            emit=self.hear,
            step_tokens=lambda prefilled, generated: self.tokens.append((prefilled, generated)),
            token_gap=lambda seconds, tokens: self.gaps.append((seconds, tokens)),
            clock=self.clock,
        )

    def hear(self, event: Event) -> None:
        self.events.append(event)
        self.tally(event)

    def take(self, deltas: Sequence[tuple[JobId, Delta]]) -> None:
        for job, delta in deltas:
            self.deltas[job].append(delta)

    def step(self, seconds: float = 1.0) -> bool:
        """One step that takes `seconds` of the clock."""
        self.clock.advance(seconds)
        return self.scheduler.step()

    def run(self, *jobs: Job) -> None:
        """Offer jobs and step until nothing is left to do."""
        for job in jobs:
            self.admission.offer(job)
        while self.step():
            pass

    def reply(self, job: Job) -> list[int]:
        """The tokens a job got."""
        return [delta.token for delta in self.deltas[job.id] if isinstance(delta, Generated)]

    def started(self, job: Job) -> Started:
        """How a job started."""
        (started,) = (delta for delta in self.deltas[job.id] if isinstance(delta, Started))
        return started

    def last_words(self, job: Job) -> list[FinishReason | str]:
        """Everything that ends a job, as told to its client."""
        words: list[FinishReason | str] = []
        for delta in self.deltas[job.id]:
            if isinstance(delta, Failed):
                words.append(delta.message)
            elif isinstance(delta, Generated) and delta.finish is not None:
                words.append(delta.finish)
        return words

    def ended(self) -> dict[JobId, FinishReason]:
        """How each job ended, as told to the operator."""
        ends = [event for event in self.events if isinstance(event, GenerationEnded)]
        assert len({event.job_id for event in ends}) == len(ends), "a job ended twice"
        return {JobId(event.job_id): event.reason for event in ends}
