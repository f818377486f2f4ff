"""The recommendation as it stands, and a capacity that follows it."""

import logging
from dataclasses import dataclass, field

from app.events import Event
from app.snapshots.capacity import SLOT_SECONDS, WINDOW_SECONDS, Capacity
from app.snapshots.entry import pack
from app.snapshots.limits import Limits
from app.snapshots.sizing import Basis, Recommendation
from app.snapshots.store import SnapshotStore
from app.vocabulary import Origin
from tests.support.clock import ManualClock
from tests.support.snapshots import BUCKET, Block, limits

START = Recommendation(Basis.MODEL, 8, 10, 100, 1_000)


@dataclass
class Room:
    """A store, and a capacity that hears it."""

    limits: Limits
    automatic: bool = True
    clock: ManualClock = field(default_factory=ManualClock)

    def __post_init__(self) -> None:
        self.capacity = Capacity(self.clock)
        self.store: SnapshotStore[Block] = SnapshotStore(self.limits, clock=self.clock, emit=self.hear)
        self.removed = 0
        self.capacity.open(self.store, start=START, automatic=self.automatic)

    def hear(self, event: Event) -> None:
        self.capacity(event)

    def put(self, session: str, nbytes: int) -> None:
        self.store.insert(
            bucket=BUCKET, session=session, origin=Origin.BOUNDARY, tokens=pack([1, 2]), payload=Block(nbytes)
        )

    @property
    def right(self) -> Recommendation:
        right = self.capacity.recommendation()
        assert right is not None
        return right


def test_before_anything_is_measured_the_model_speaks():
    """And before the model is loaded, nobody does."""
    assert Capacity(ManualClock()).recommendation() is None
    assert Capacity(ManualClock()).payload() == {}
    assert Room(limits(capacity_bytes=100)).right == START


def test_a_capacity_left_to_us_grows_before_anything_has_to_go():
    """Each snapshot leaves headroom for the next, until memory has no more; then the oldest go."""
    room = Room(limits(capacity_bytes=100))
    for number in range(16):
        room.put(f"s{number}", 50)
    assert room.store.occupancy().entries == 16
    assert room.store.limits.capacity_bytes == room.right.capacity_bytes == 1_000
    for number in range(16, 30):
        room.put(f"s{number}", 50)
    assert room.store.limits.capacity_bytes == 1_000
    assert room.store.occupancy().entries == 20
    assert (room.right.fits, room.right.sessions, room.right.wanted_bytes) == (False, 30, 1_875)


def test_an_explicit_capacity_is_never_touched():
    """The recommendation stands beside it."""
    room = Room(limits(capacity_bytes=100), automatic=False)
    for number in range(10):
        room.put(f"s{number}", 50)
    assert room.store.limits.capacity_bytes == 100
    assert room.right.capacity_bytes == 625


def test_a_capacity_never_shrinks_by_itself():
    """A quiet day evicts nothing."""
    room = Room(limits(capacity_bytes=100))
    for number in range(10):
        room.put(f"s{number}", 50)
    grown = room.store.limits.capacity_bytes
    room.store.clear()
    room.clock.advance(2 * WINDOW_SECONDS)
    room.put("s", 10)
    assert room.store.limits.capacity_bytes == grown > room.right.capacity_bytes


def test_the_busiest_time_counts_for_a_day():
    """What was needed yesterday at this hour is still recommended; what was needed before is not."""
    room = Room(limits(capacity_bytes=10_000), automatic=False)
    for number in range(10):
        room.put(f"s{number}", 50)
    busy = room.right
    room.store.clear()
    room.clock.advance(WINDOW_SECONDS - SLOT_SECONDS)
    room.put("s", 50)
    assert room.right == busy
    room.clock.advance(SLOT_SECONDS + 1)
    assert (room.right.sessions, room.right.capacity_bytes) == (1, 150)
    room.clock.advance(WINDOW_SECONDS)
    assert room.right == START


def test_what_was_refused_as_oversized_is_wanted_twice():
    """A store must hold two of its largest snapshots, also of those that it could not take."""
    room = Room(limits(capacity_bytes=100), automatic=False)
    room.put("s", 300)
    assert room.right.wanted_bytes == 900


def test_room_for_less_than_two_is_warned_of_once_a_size(caplog):
    """At the start and when a larger snapshot comes; not at each insert."""
    with caplog.at_level(logging.WARNING):
        room = Room(limits(capacity_bytes=100), automatic=False)
        assert caplog.records == []
        for number in range(5):
            room.put(f"s{number}", 60)
        assert len(caplog.records) == 1
        room.put("t", 90)
    assert len(caplog.records) == 2
    assert "100 bytes does not hold two snapshots of 90 bytes" in caplog.records[-1].getMessage()


def test_limits_that_grow_hold_at_once():
    """The store takes what it refused before, and a smaller value changes nothing."""
    store: SnapshotStore[Block] = SnapshotStore(limits(capacity_bytes=100))
    store.grow(200)
    store.grow(50)
    assert store.limits.capacity_bytes == 200
    for session in "abc":
        store.insert(
            bucket=BUCKET, session=session, origin=Origin.BOUNDARY, tokens=pack([1]), payload=Block(90)
        )
    assert (store.occupancy().entries, store.occupancy().nbytes) == (2, 180)
