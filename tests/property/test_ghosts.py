"""What more memory would have changed, against stores that really have it."""

import random
from collections import Counter
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.events import Event, Transaction
from app.snapshots import ghosts
from app.snapshots.entry import ANONYMOUS_SESSION, Bucket, pack
from app.snapshots.ghosts import FACTORS
from app.snapshots.limits import Limits
from app.snapshots.store import SnapshotStore
from app.vocabulary import Growth, Origin
from tests.support.clock import ManualClock
from tests.support.effort import one_in
from tests.support.snapshots import BUCKET, Block, limits

BUCKETS = (BUCKET, Bucket(model="demo", cache_signature="kv", template_signature="tools", tenant="acme"))

OTHERS = Bucket(model="demo", cache_signature="kv", tenant="other")


@dataclass
class Rooms:
    """A store and, beside it, stores of each larger capacity that are put through the very same."""

    limits: Limits
    truncatable: bool
    quotas: dict[str, int] = field(default_factory=dict)
    clock: ManualClock = field(default_factory=ManualClock)
    said: list[Growth | None] = field(default_factory=list)
    true: list[Growth | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store: SnapshotStore[Block] = SnapshotStore(self.limits, clock=self.clock, quota=self.quotas.get)
        self.larger: dict[Growth, SnapshotStore[Block]] = {
            growth: SnapshotStore(
                replace(self.limits, capacity_bytes=int(self.limits.capacity_bytes * factor)),
                clock=self.clock,
                quota=self.quotas.get,
            )
            for growth, factor in FACTORS.items()
        }

    @property
    def all(self) -> list[SnapshotStore[Block]]:
        return [self.store, *self.larger.values()]

    def ask(self, tokens: list[int], session: str, bucket: Bucket = BUCKET) -> None:
        """Look up in all; note the growth that is claimed, and the least store that really finds more."""
        reused: dict[Growth | None, int] = {}
        for growth, store in zip([None, *self.larger], self.all, strict=True):
            found = store.find(bucket=bucket, session=session, tokens=pack(tokens))
            if found.candidates:
                store.hit(found, found.candidates[0])
            else:
                store.miss(found)
            reused[growth] = found.candidates[0].use_tokens if found.candidates else 0
            if growth is None:
                self.said.append(found.growth)
        self.true.append(next((growth for growth in Growth if reused[growth] > reused[None]), None))

    def put(
        self,
        tokens: list[int],
        session: str | None,
        nbytes: int,
        *,
        bucket: Bucket = BUCKET,
        origin: Origin = Origin.BOUNDARY,
        tentative: bool = False,
    ) -> None:
        """Insert into all."""
        for store in self.all:
            store.insert(
                bucket=bucket,
                session=session,
                origin=origin,
                tokens=pack(tokens),
                payload=Block(nbytes, 2, 1 if self.truncatable else None),
                tentative=tentative,
            )

    def shed(self, nbytes: int) -> None:
        """Memory is needed, but not where there is more of it."""
        self.store.shed(nbytes)
        for store in self.larger.values():
            store.sweep()


def converse(
    rooms: Rooms,
    draw: random.Random,
    *,
    turns: int,
    sessions: int,
    edited_share: float = 0.15,
    buckets: tuple[Bucket, ...] = BUCKETS,
) -> None:
    """Conversations take turns at random, each of its own growing size; some are edited, some rest."""
    texts: dict[tuple[Bucket, str], list[int]] = {}
    for _ in range(turns):
        session, bucket = f"session {draw.randrange(sessions)}", draw.choice(buckets)
        text = texts.setdefault((bucket, session), [draw.randrange(3)])
        if draw.random() < edited_share:
            del text[draw.randrange(1, len(text) + 1) :]
        text.extend(draw.randrange(3) for _ in range(draw.randrange(1, 4)))
        del text[rooms.limits.capacity_bytes - 5 :]
        rooms.ask([*text, 9], session, bucket)
        rooms.put(text, session, 5 + len(text), bucket=bucket)
        rooms.clock.advance(draw.choice([0.0, 1.0, 5.0]))
        if draw.random() < 0.03:
            rooms.shed(draw.randrange(40))
        if draw.random() < 0.01:
            for store in rooms.all:
                store.clear()


def random_rooms(draw: random.Random, *, truncatable: bool, ttl_seconds: float | None, most: int) -> Rooms:
    """Stores that hold a few to a few dozen entries."""
    return Rooms(
        limits(
            capacity_bytes=draw.randrange(40, 200),
            max_entries=most,
            ttl_seconds=ttl_seconds,
            min_prefix_tokens=draw.randrange(1, 3),
        ),
        truncatable,
    )


@one_in(4)
@given(
    seed=st.integers(0, 10_000),
    truncatable=st.booleans(),
    ttl_seconds=st.sampled_from([None, 40.0]),
    most=st.sampled_from([1_000, 12]),
)
def test_what_is_said_of_larger_stores_is_what_larger_stores_do(
    seed: int, truncatable: bool, ttl_seconds: float | None, most: int
) -> None:
    """For each lookup of any workload of conversations: the least growth that would have helped, or none.

    Where states can be cut back, no message is edited here: see the next law.
    """
    draw = random.Random(seed)
    rooms = random_rooms(draw, truncatable=truncatable, ttl_seconds=ttl_seconds, most=most)
    edited_share = 0.0 if truncatable else 0.15
    converse(rooms, draw, turns=80, sessions=draw.randrange(2, 12), edited_share=edited_share)
    assert rooms.said == rooms.true


@one_in(4)
@given(seed=st.integers(0, 10_000), ttl_seconds=st.sampled_from([None, 40.0]))
def test_larger_stores_have_the_same_quotas(seed: int, ttl_seconds: float | None) -> None:
    """What a tenant's own quota pushed out, more memory would not have kept; what others did, it would."""
    draw = random.Random(seed)
    rooms = random_rooms(draw, truncatable=False, ttl_seconds=ttl_seconds, most=1_000)
    rooms.quotas["acme"] = draw.randrange(rooms.limits.capacity_bytes // 2, rooms.limits.capacity_bytes * 3)
    converse(rooms, draw, turns=80, sessions=draw.randrange(2, 12), buckets=(*BUCKETS, OTHERS))
    assert rooms.said == rooms.true


def test_edited_conversations_are_told_nearly_right_where_states_can_be_cut_back() -> None:
    """A ghost that a larger store would have cut back and used goes on ageing here: 5 percent at most."""
    said: Counter[Growth | None] = Counter()
    true: Counter[Growth | None] = Counter()
    for seed in range(40):
        draw = random.Random(seed)
        rooms = random_rooms(draw, truncatable=True, ttl_seconds=None, most=1_000)
        converse(rooms, draw, turns=100, sessions=draw.randrange(2, 12))
        said.update(rooms.said)
        true.update(rooms.true)
    assert min(true[growth] for growth in Growth) > 100, "there was nothing to be told"
    for growth in Growth:
        within = list(Growth)[: list(Growth).index(growth) + 1]
        told, happened = sum(said[each] for each in within), sum(true[each] for each in within)
        assert abs(told - happened) <= 0.05 * happened


def grown(capacity_bytes: int, *, truncatable: bool = False, most: int = 1_000) -> Rooms:
    return Rooms(limits(capacity_bytes=capacity_bytes, max_entries=most), truncatable)


def test_a_snapshot_larger_than_the_store_would_have_been_hit_in_one_that_takes_it() -> None:
    """What was refused as oversized is no eviction, and more memory helps it all the same."""
    rooms = grown(100)
    rooms.put([1, 2], "s", 180)
    rooms.ask([1, 2, 3], "s")
    assert rooms.said == rooms.true == [Growth.DOUBLE]


def test_more_memory_is_no_use_where_the_entry_limit_binds() -> None:
    """A larger store has the same other limits."""
    rooms = grown(100, most=1)
    rooms.put([1, 2], "a", 10)
    rooms.put([1, 2], "b", 10)
    rooms.ask([1, 2, 3], "a")
    assert rooms.said == rooms.true == [None]


def test_an_empty_store_still_knows_what_it_gave_away() -> None:
    """Everything went for running requests: with more memory it would still be there."""
    rooms = grown(100)
    rooms.put([1, 2], "a", 90)
    rooms.shed(1)
    rooms.ask([1, 2, 3], "a")
    assert rooms.said == rooms.true == [Growth.HALF_MORE]


def test_a_hit_on_less_than_a_larger_store_would_have_counts_too() -> None:
    """A conversation that was evicted starts from its system prompt's anchor: a hit, and a poor one."""
    rooms = grown(100)
    rooms.put([1, 2], None, 10, origin=Origin.SYSTEM)
    rooms.ask([1, 2, 3, 3, 3, 3], "x")
    rooms.put([1, 2, 5, 5, 5], "a", 60)
    rooms.put([1, 2, 6, 6, 6], "b", 60)
    rooms.ask([1, 2, 5, 5, 5, 7], "a")
    assert rooms.said == rooms.true == [None, Growth.HALF_MORE]


def test_what_expired_or_was_cleared_is_missed_in_any_store() -> None:
    """Only want of room makes a ghost, and a ghost expires as an entry does."""
    rooms = Rooms(limits(capacity_bytes=100, ttl_seconds=60), truncatable=False)
    rooms.put([1, 2], "a", 60)
    rooms.put([1, 2], "b", 60)
    rooms.clock.advance(60)
    rooms.ask([1, 2, 3], "a")
    rooms.put([1, 2], "a", 60)
    rooms.put([1, 2], "b", 60)
    for store in rooms.all:
        store.clear()
    rooms.ask([1, 2, 3], "a")
    assert rooms.said == rooms.true == [None, None]
    assert rooms.store._ghosts.nbytes == 0


def test_a_guess_that_found_no_room_is_wanted_until_its_conversation_goes_on() -> None:
    """It counts as demand, because a store with room would hold it, and no longer than it would be held."""
    rooms = grown(100)
    rooms.put([1, 2], "a", 60)
    rooms.put([1, 2, 3], "a", 60, tentative=True)
    assert rooms.store._ghosts.nbytes == 60
    rooms.ask([1, 2, 3, 4], "a")
    rooms.put([1, 2, 7, 7], "a", 65)
    assert rooms.store._ghosts.nbytes == 0
    assert [growth and growth.value for growth in rooms.said] == ["1.5x"]


def test_ghosts_keep_no_state_and_few_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """They hold no payload; beyond a bound on their tokens, those that the largest store loses next go."""
    monkeypatch.setattr(ghosts, "MAX_TOKEN_BYTES", 4 * 100)
    rooms = grown(50)
    for number in range(60):
        rooms.put(list(range(number, number + 10)), f"session {number}", 4)
    kept = rooms.store._ghosts
    assert kept._token_bytes <= 4 * 100
    entries = list(kept._all())
    assert len(entries) == 10
    assert {type(ghost.payload).__name__ for ghost in entries} == {"Shell"}
    assert {ghost.facts.session for ghost in entries} == {f"session {number}" for number in range(38, 48)}


def test_demand_is_what_an_endless_store_would_hold_and_for_how_many() -> None:
    """Held and ghosts together; of a session without a name, each entry is a conversation."""
    said: list[Transaction] = []

    def hear(event: Event) -> None:
        assert isinstance(event, Transaction)
        said.append(event)

    store: SnapshotStore[Block] = SnapshotStore(limits(capacity_bytes=100), emit=hear)
    for number, session in enumerate([*"aab", ANONYMOUS_SESSION, ANONYMOUS_SESSION]):
        store.insert(
            bucket=BUCKET,
            session=session,
            origin=Origin.BOUNDARY,
            tokens=pack([number, 1]),
            payload=Block(45),
        )
    assert [(each.demand.nbytes, each.demand.sessions) for each in said] == [
        (45, 1),
        (90, 1),
        (135, 2),
        (180, 3),
        (225, 4),
    ]
