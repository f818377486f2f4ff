"""What the store does with a guess at the next turn: it costs nobody anything, and goes when it was wrong."""

from app.snapshots.entry import pack
from app.snapshots.limits import Limits
from app.snapshots.stats import Tally
from app.snapshots.store import SnapshotStore
from app.vocabulary import Origin, Rejection, Removal
from tests.support.hash_chain import ChainPayload
from tests.support.jobs import BUCKET


class Room:
    """A store for three whole states, counted."""

    def __init__(self):
        self.tally = Tally()
        limits = Limits(capacity_bytes=10**6, max_entries=3, ttl_seconds=None, min_prefix_tokens=1)
        self.store = SnapshotStore[ChainPayload](limits, emit=self.tally)

    def put(self, tokens, *, session="a", tentative=False):
        return self.store.insert(
            bucket=BUCKET,
            session=session,
            origin=Origin.BOUNDARY,
            tokens=pack(tokens),
            payload=ChainPayload((b"",) * (len(tokens) + 1), truncatable=False, nbytes=100),
            tentative=tentative,
        )

    def found(self, tokens, *, session="a"):
        candidates = self.store.find(bucket=BUCKET, session=session, tokens=pack(tokens)).candidates
        return [candidate.use_tokens for candidate in candidates]


def test_a_guess_without_room_is_refused_and_costs_nobody_anything():
    """Live states of other sessions are never evicted for what may be wrong."""
    room = Room()
    for session in "abc":
        room.put(range(5), session=session)

    assert room.put(range(9), session="a", tentative=True) is Rejection.LOW_MEMORY

    assert [room.found(range(20), session=session) for session in "abc"] == [[5], [5], [5]]
    assert sum(room.tally.read().removals.values()) == 0


def test_a_wrong_guess_goes_when_its_conversation_goes_on_otherwise():
    """It leaves as superseded, together with the boundary that it was made from."""
    room = Room()
    room.put(range(5))
    room.put([*range(5), 70, 71], tentative=True)

    room.put([*range(5), 80, 81, 82])

    assert room.found([*range(5), 80, 81, 82, 83]) == [8]
    assert room.tally.read().removals[Removal.SUPERSEDED] == 2
    assert room.tally.read().occupancy.entries == 1


def test_a_right_guess_takes_over_when_it_is_hit():
    """Then the old boundary goes, and the guess is a state like any other."""
    room = Room()
    room.put(range(5))
    room.put(range(9), tentative=True)
    prompt = pack(range(20))
    found = room.store.find(bucket=BUCKET, session="a", tokens=prompt)

    room.store.hit(found, found.candidates[0])
    room.put(range(15))

    assert room.found(range(20)) == [15]
    assert room.tally.read().removals[Removal.SUPERSEDED] == 2
    assert room.tally.read().occupancy.entries == 1


def test_a_guess_outlives_the_eviction_of_its_boundary():
    """What is gone for want of room says nothing about the guess."""
    room = Room()
    room.put(range(5), session="a")
    room.put(range(9), session="a", tentative=True)
    for session in "bc":
        room.put(range(5), session=session)

    assert room.found(range(20), session="a") == [9]
