"""A snapshot store on a manual clock whose every word is heard, and payloads that need no model."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from app.events import Event, SnapshotEvent, SnapshotRemoved, TraceRef, Transaction
from app.snapshots.entry import Bucket, pack
from app.snapshots.limits import Limits
from app.snapshots.lookup import Found
from app.snapshots.stats import Tally
from app.snapshots.store import SnapshotStore
from app.vocabulary import Miss, Origin, Rejection, Removal
from tests.support.clock import ManualClock

BUCKET = Bucket(model="demo", cache_signature="kv", template_signature="chat", tenant="acme")


@dataclass(frozen=True, eq=False)
class Block:
    """A payload of a stated size. `cuts_from`: the shortest prefix it can be truncated to; None: to none."""

    nbytes: int = 1
    arrays: int = 1
    cuts_from: int | None = None

    def can_truncate_to(self, n_tokens: int) -> bool:
        """As a state would answer of which the first tokens are always, never or only partly there."""
        return self.cuts_from is not None and n_tokens >= self.cuts_from


def limits(
    *,
    capacity_bytes: int = 1_000_000,
    max_entries: int = 1_000,
    ttl_seconds: float | None = None,
    min_prefix_tokens: int = 1,
    max_arrays: int | None = None,
    enabled: bool = True,
    supersede: bool = True,
    keep_ancestors: int = 0,
) -> Limits:
    """Limits that do not bind, but where a test says so."""
    return Limits(
        capacity_bytes=capacity_bytes,
        max_entries=max_entries,
        ttl_seconds=ttl_seconds,
        min_prefix_tokens=min_prefix_tokens,
        max_arrays=max_arrays,
        enabled=enabled,
        supersede=supersede,
        keep_ancestors=keep_ancestors,
    )


@dataclass
class Heard:
    """A store, its clock, and all that it said."""

    limits: Limits = field(default_factory=limits)
    clock: ManualClock = field(default_factory=ManualClock)
    transactions: list[Transaction] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)

    def __post_init__(self) -> None:
        self.store: SnapshotStore[Block] = SnapshotStore(self.limits, clock=self.clock, emit=self._hear)

    def _hear(self, event: Event) -> None:
        assert isinstance(event, Transaction)
        self.transactions.append(event)
        self.tally(event)

    @property
    def events(self) -> list[SnapshotEvent]:
        """Every event so far, in order."""
        return [event for transaction in self.transactions for event in transaction.events]

    @property
    def removals(self) -> list[tuple[int, Removal]]:
        """(entry id, reason) of every removal so far; ids count accepted inserts from 1."""
        return [(e.entry.id, e.reason) for e in self.events if isinstance(e, SnapshotRemoved)]

    @property
    def self_evictions(self) -> list[int]:
        """Ids of the entries that their own session pushed out."""
        return [e.entry.id for e in self.events if isinstance(e, SnapshotRemoved) and e.self_eviction]

    @property
    def held(self) -> list[int]:
        """Ids of the entries held, the least recently used first."""
        return [entry.facts.id for entry in self.store._held]

    def put(
        self,
        tokens: Iterable[int],
        *,
        session: str | None = "s",
        origin: Origin = Origin.BOUNDARY,
        bucket: Bucket = BUCKET,
        nbytes: int = 1,
        arrays: int = 1,
        cuts_from: int | None = None,
        cause: TraceRef | None = None,
    ) -> Rejection | None:
        """Insert a block of that size for `tokens`."""
        return self.store.insert(
            bucket=bucket,
            session=session,
            origin=origin,
            tokens=pack(tokens),
            payload=Block(nbytes, arrays, cuts_from),
            cause=cause,
        )

    def find(
        self, tokens: Iterable[int], *, session: str | None = "s", bucket: Bucket = BUCKET
    ) -> Found[Block]:
        """Ask what `tokens` may start from."""
        return self.store.find(bucket=bucket, session=session, tokens=pack(tokens))

    def use(self, tokens: Iterable[int], *, session: str | None = "s", bucket: Bucket = BUCKET) -> int | Miss:
        """Look up and conclude as an engine does whose restores always work: tokens reused, or why none."""
        found = self.find(tokens, session=session, bucket=bucket)
        if not found.candidates:
            return self.store.miss(found)
        self.store.hit(found, found.candidates[0])
        return found.candidates[0].use_tokens
