"""A tenant's life in a shared store is the life it would have alone: it can tell nothing of the others."""

import random
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.events import (
    Event,
    LookupHit,
    LookupMissed,
    SnapshotEvent,
    SnapshotInserted,
    SnapshotRejected,
    SnapshotRemoved,
    Transaction,
)
from app.snapshots.entry import Bucket, pack
from app.snapshots.limits import Limits
from app.snapshots.stats import Tally, tenant_of, tenant_payload
from app.snapshots.store import SnapshotStore
from app.vocabulary import Miss, Origin, Removal
from tests.support.clock import ManualClock
from tests.support.effort import one_in
from tests.support.snapshots import Block, limits

TENANTS = ("ann", "bob", "eve")
SESSIONS = ("chat", "(anonymous)")

QUOTAS = {"ann": 60, "bob": 60, "eve": 30}
SHARED = limits(capacity_bytes=sum(QUOTAS.values()), ttl_seconds=30.0, min_prefix_tokens=2, keep_ancestors=1)
"""The quotas fit into the store together, and nothing else binds: nobody needs another's room."""


@dataclass
class Life:
    """A store, and what one tenant gets to see of it: answers, and events about its own entries."""

    limits: Limits
    quotas: dict[str, int] = field(default_factory=lambda: dict(QUOTAS))
    clock: ManualClock = field(default_factory=ManualClock)
    tally: Tally = field(default_factory=Tally)
    said: dict[str, list[object]] = field(default_factory=lambda: {tenant: [] for tenant in TENANTS})
    crossed: list[SnapshotEvent] = field(default_factory=list)
    """What an act of one tenant did to another."""
    actor: str | None = None
    """Who acts now; nobody while time passes."""
    ids: dict[str, list[int]] = field(default_factory=lambda: {tenant: [] for tenant in TENANTS})

    def __post_init__(self) -> None:
        self.store: SnapshotStore[Block] = SnapshotStore(
            self.limits, clock=self.clock, emit=self._hear, quota=self.quotas.get
        )

    def _hear(self, event: Event) -> None:
        assert isinstance(event, Transaction)
        self.tally(event)
        for part in event.events:
            tenant = tenant_of(part)
            if self.actor not in (None, tenant):
                self.crossed.append(part)
            if isinstance(part, SnapshotInserted):
                self.ids[tenant].append(part.entry.id)
            self.said[tenant].append(self._as_told(part, tenant))

    def _as_told(self, event: SnapshotEvent, tenant: str) -> SnapshotEvent:
        """With the entry's number in its own tenant's count, which is the same in a store of its own."""
        if isinstance(event, SnapshotRejected | LookupMissed):
            return event
        number = self.ids[tenant].index(event.entry.id) + 1
        return replace(event, entry=replace(event.entry, id=number))

    def use(self, bucket: Bucket, session: str, tokens: tuple[int, ...]) -> None:
        """A lookup, concluded as an engine does."""
        found = self.store.find(bucket=bucket, session=session, tokens=pack(tokens))
        uses = [candidate.use_tokens for candidate in found.candidates]
        assert all(candidate.entry.tenant == bucket.tenant for candidate in found.candidates)
        self.said[bucket.tenant].append((found.reason, found.common_prefix_tokens, uses))
        if found.candidates:
            self.store.hit(found, found.candidates[0])
        else:
            self.store.miss(found)

    def put(self, bucket: Bucket, session: str, tokens: tuple[int, ...], **how: Any) -> None:
        """An insert, and what it is told."""
        refused = self.store.insert(bucket=bucket, session=session, tokens=pack(tokens), **how)
        self.said[bucket.tenant].append(refused)

    def wait(self, seconds: float) -> None:
        """Time passes, and the engine's tick comes."""
        self.clock.advance(seconds)
        self.store.sweep()

    def clear(self, tenant: str) -> None:
        """A reset of one tenant."""
        self.said[tenant].append(self.store.clear(tenant))

    def forget(self, tenant: str, session: str) -> None:
        """The end of one session."""
        self.said[tenant].append(self.store.forget_session(tenant, session))

    def account(self, tenant: str) -> dict[str, object]:
        """What the tenant is told of itself at the end."""
        return tenant_payload(self.tally.read(tenant), self.limits, quota=self.quotas.get(tenant))


Act = partial[None]


def acts(draw: random.Random, count: int) -> list[tuple[str | None, Act]]:
    """Who does what, all with the very same few prompts and sessions; nobody: time passes."""
    done: list[tuple[str | None, Act]] = []
    for _ in range(count):
        tenant = draw.choice(TENANTS)
        bucket = Bucket("demo", "kv", template_signature=draw.choice(["", "tools"]), tenant=tenant)
        session = draw.choice(SESSIONS)
        tokens = tuple(draw.randrange(2) for _ in range(draw.randrange(2, 7)))
        how: dict[str, Any] = {
            "origin": draw.choice([Origin.BOUNDARY, Origin.BOUNDARY, Origin.COMPLETION, Origin.SYSTEM]),
            "payload": Block(draw.randrange(1, 35), 1, draw.choice([None, None, 2])),
            "tentative": draw.random() < 0.2,
        }
        act = draw.choices(
            [
                partial(Life.use, bucket=bucket, session=session, tokens=tokens),
                partial(Life.put, bucket=bucket, session=session, tokens=tokens, **how),
                partial(Life.wait, seconds=draw.choice([1.0, 10.0])),
                partial(Life.clear, tenant=tenant),
                partial(Life.forget, tenant=tenant, session=session),
            ],
            weights=[10, 10, 4, 0.2, 0.2],
        )[0]
        done.append((None if act.func is Life.wait else tenant, act))
    return done


def lived(life: Life, done: list[tuple[str | None, Act]], only: str | None = None) -> Life:
    """`life` after all that was done, or what one tenant did of it."""
    for who, act in done:
        if only is None or who in (None, only):
            life.actor = who
            act(life)
    return life


@one_in(4)
@given(seed=st.integers(0, 100_000))
def test_a_tenant_cannot_tell_whether_it_is_alone(seed: int) -> None:
    """Same prompts, same sessions, and any acts of others between: every answer, event and number is its own.

    No hit, no reason of a miss, no eviction, no removal by a reset and no count differs from those of a
    store that the others never came to.
    """
    done = acts(random.Random(seed), 200)
    together = lived(Life(SHARED), done)
    assert together.crossed == []
    for tenant in TENANTS:
        alone = lived(Life(SHARED), done, tenant)
        assert together.said[tenant] == alone.said[tenant]
        assert together.account(tenant) == alone.account(tenant)


@one_in(4)
@given(seed=st.integers(0, 100_000))
def test_beyond_the_capacity_all_that_is_shared_is_room(seed: int) -> None:
    """Where the quotas together are more than there is, others can push a state out, and nothing else."""
    tight = lived(Life(replace(SHARED, capacity_bytes=50)), acts(random.Random(seed), 200))
    for event in tight.crossed:
        assert isinstance(event, SnapshotRemoved)
        # What was superseded already, and kept while there was room, leaves under that name.
        assert event.reason in {Removal.LRU_BYTES, Removal.SUPERSEDED}
        assert not event.self_eviction


def test_a_store_full_of_others_is_empty_to_a_tenant() -> None:
    """Whether anybody else has anything is nothing that a miss tells."""
    life = Life(SHARED)
    ann, bob = (Bucket("demo", "kv", tenant=tenant) for tenant in ("ann", "bob"))
    life.put(ann, "chat", (1, 2, 3), origin=Origin.BOUNDARY, payload=Block(5))
    life.use(bob, "chat", (1, 2, 3, 4))
    life.use(ann, "chat", (1, 2, 3, 4))
    assert [said for said in life.said["bob"] if isinstance(said, LookupMissed)] == [
        LookupMissed(Miss.EMPTY, 4, 0, 0, tenant="bob")
    ]
    assert [said.reused_tokens for said in life.said["ann"] if isinstance(said, LookupHit)] == [3]
