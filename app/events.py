"""Every event of the server as a frozen value. Producers state facts; listeners decide what they mean.

Times are seconds of the injected monotonic clock. Token contents never appear here.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from app.vocabulary import FinishReason, Growth, Miss, Origin, Outcome, Rejection, Removal, StoreCall, Warmup


@dataclass(frozen=True, slots=True)
class TraceRef:
    """A span by its numbers, so that the core can carry a trace without knowing OpenTelemetry."""

    trace_id: int
    span_id: int
    sampled: bool


@dataclass(frozen=True, slots=True)
class EntryFacts:
    """What is told about an entry: numbers, its origin and its session, never its tokens.

    `session` is the client's own key (None where the entry belongs to no session); listeners hash it
    before it leaves the process.
    """

    id: int
    origin: Origin
    session: str | None
    tokens: int
    nbytes: int
    arrays: int
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class SnapshotInserted:
    """An entry is now in the store (even if a removal in the same transaction took it out again)."""

    entry: EntryFacts


@dataclass(frozen=True, slots=True)
class SnapshotRemoved:
    """An entry left the store.

    `self_eviction`: an LRU removal of live state of the very session that is inserting; the budget is
    too small. `inserted_by`: the trace that put the entry in, for a span link.
    """

    entry: EntryFacts
    reason: Removal
    age_seconds: float
    idle_seconds: float
    hits: int
    self_eviction: bool
    inserted_by: TraceRef | None


@dataclass(frozen=True, slots=True)
class SnapshotRejected:
    """A snapshot was refused; nothing else in the store was touched."""

    reason: Rejection
    origin: Origin
    session: str | None
    tokens: int
    nbytes: int
    capacity_bytes: int
    """The most that its tenant may hold: the store's capacity, or a smaller quota of that tenant."""
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class LookupHit:
    """A stored state was restored and is in use. Stated after the restore, never before.

    `growth`: the least with which more tokens would have been reused; None: no more memory would help.
    """

    entry: EntryFacts
    prompt_tokens: int
    reused_tokens: int
    reuse_gap_seconds: float
    failed_restores: int
    growth: Growth | None = None

    @property
    def truncated(self) -> bool:
        """Whether the state was cut back to a prefix shorter than what the entry describes."""
        return self.reused_tokens < self.entry.tokens


@dataclass(frozen=True, slots=True)
class LookupMissed:
    """A request starts cold. `common_prefix_tokens` is the longest prefix any candidate shared.

    `growth`: the least with which it would have been a hit; None: no more memory would help.
    """

    reason: Miss
    prompt_tokens: int
    common_prefix_tokens: int
    failed_restores: int
    growth: Growth | None = None
    tenant: str = ""


SnapshotEvent = SnapshotInserted | SnapshotRemoved | SnapshotRejected | LookupHit | LookupMissed


@dataclass(frozen=True, slots=True)
class Occupancy:
    """What the store holds at one instant, read under its lock."""

    entries: int
    nbytes: int
    arrays: int
    by_origin: Mapping[Origin, tuple[int, int]]
    """origin → (entries, bytes)"""
    oldest_used: float | None = None
    """When the least recently used entry was used, on the clock; None: there is none."""

    def oldest_age_seconds(self, now: float) -> float:
        """How long that was ago; 0 where there is none."""
        return 0.0 if self.oldest_used is None else max(now - self.oldest_used, 0.0)


@dataclass(frozen=True, slots=True)
class Demand:
    """What would be held if nothing had had to go for want of room.

    `sessions`: how many conversations that is for.
    """

    nbytes: int = 0
    sessions: int = 0


@dataclass(frozen=True, slots=True)
class Transaction:
    """All that one call on the store did, in order. `seq` counts 1, 2, 3… without gaps."""

    seq: int
    call: StoreCall
    cause: TraceRef | None
    started: float
    ended: float
    events: tuple[SnapshotEvent, ...]
    occupancy: Occupancy
    demand: Demand = Demand()


@dataclass(frozen=True, slots=True)
class PayloadSealed:
    """Model state was copied out of a running batch. `nbytes` is None where sealing was refused."""

    origin: Origin
    cause: TraceRef | None
    started: float
    ended: float
    tokens: int
    nbytes: int | None


@dataclass(frozen=True, slots=True)
class PayloadRestored:
    """A stored state was copied back for a request; `error` is set where that failed."""

    cause: TraceRef | None
    started: float
    ended: float
    tokens: int
    nbytes: int
    error: str | None


@dataclass(frozen=True, slots=True)
class CaptureDeclined:
    """A request got no boundary snapshot, for a reason known before its prefill."""

    reason: str
    cause: TraceRef | None


@dataclass(frozen=True, slots=True)
class WarmupEnded:
    """What was done in idle time for a conversation's next turn. `started` is None where nothing was run.

    `tokens`: of the state wanted, 0 where it was not known yet; `computed_tokens`: those run for it,
    whether or not the state was kept.
    """

    outcome: Warmup
    cause: TraceRef | None
    started: float | None
    ended: float
    tokens: int = 0
    computed_tokens: int = 0


@dataclass(frozen=True, slots=True)
class GenerationEnded:
    """One request's whole life on the engine. A stage that never began is None.

    Spans: queue = queued→started, prefill = started→first_token, decode = first_token→ended.
    """

    job_id: str
    reason: FinishReason
    cause: TraceRef | None
    queued: float
    started: float | None
    first_token: float | None
    ended: float
    prompt_tokens: int
    cached_tokens: int
    generated_tokens: int
    miss: Miss | None
    error: str | None
    session: str | None = None
    """The client's own key; listeners hash it before it leaves the process."""
    stored_tokens: int = 0
    """Prompt tokens beyond the cached ones that are in the store now, because of this request."""


@dataclass(frozen=True, slots=True)
class RequestEnded:
    """One HTTP request on an inference route was answered. `route` is the template, never the raw path.

    `job_ids`: the jobs that the engine took for it; each of them has a `GenerationEnded`, before or after.
    """

    route: str
    outcome: Outcome
    status: int
    seconds: float
    job_ids: tuple[str, ...] = ()
    request_id: str | None = None
    key: str | None = None
    """The name of the API key; None: there was none, or none that is known."""


@dataclass(frozen=True, slots=True)
class EngineRebuilt:
    """A step raised; the requests in flight were failed and the batch generator was made anew."""

    error: str
    failed_jobs: int


@dataclass(frozen=True, slots=True)
class AdminCalled:
    """Somebody asked to remove snapshots of others, whether or not it was allowed.

    `key`: the name of the API key it was asked with; None: there was none, or none that is known.
    `tenant`: whose; None: everybody's, or the caller's own. `session`: the client's own key, which
    listeners hash. `status`: of the answer.
    """

    action: str
    key: str | None
    tenant: str | None
    session: str | None
    status: int
    client: str | None = None
    """The address that the connection came from."""


Event = (
    Transaction
    | PayloadSealed
    | PayloadRestored
    | CaptureDeclined
    | WarmupEnded
    | GenerationEnded
    | RequestEnded
    | EngineRebuilt
    | AdminCalled
)
