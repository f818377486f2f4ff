"""A guess in the store: it takes the place of older entries when it proves right, and not before."""

from dataclasses import replace
from typing import Any

from app.events import LookupHit, SnapshotRemoved
from app.snapshots.entry import pack
from app.snapshots.store import SnapshotStore
from app.vocabulary import Origin, Removal
from tests.support.clock import ManualClock
from tests.support.snapshots import BUCKET, Block, limits


class Room:
    def __init__(self, **options):
        self.transactions: list[Any] = []
        self.store: SnapshotStore[Block] = SnapshotStore(
            replace(limits(), **options), clock=ManualClock(), emit=self.transactions.append
        )

    def put(self, *tokens, tentative=False, session="s", origin=Origin.BOUNDARY, payload=None):
        return self.store.insert(
            bucket=BUCKET,
            session=session,
            origin=origin,
            tokens=pack(tokens),
            payload=payload or Block(1),
            tentative=tentative,
        )

    def ask(self, *tokens):
        """Look up, and restore the best candidate."""
        found = self.store.find(bucket=BUCKET, session="s", tokens=pack(tokens))
        if found.candidates:
            self.store.hit(found, found.candidates[0])
            return found.candidates[0].use_tokens
        self.store.miss(found)
        return 0

    def removed(self):
        return [
            (event.reason, event.entry.tokens)
            for transaction in self.transactions
            for event in transaction.events
            if isinstance(event, SnapshotRemoved)
        ]


def test_a_guess_leaves_what_it_contains_in_place():
    """Both are there until one of them is asked for."""
    room = Room()
    room.put(1, 2)
    room.put(1, 2, 3, 4, tentative=True)

    assert room.removed() == []
    assert room.store.occupancy().entries == 2


def test_a_guess_that_is_hit_supersedes_what_it_contains_in_the_same_call():
    """The removal and the hit are one transaction."""
    room = Room()
    room.put(1)
    room.put(1, 2)
    room.put(1, 2, 3, 4, tentative=True)

    assert room.ask(1, 2, 3, 4, 5) == 4

    gone, hit = room.transactions[-1].events
    assert isinstance(gone, SnapshotRemoved)
    assert isinstance(hit, LookupHit)
    assert room.removed() == [(Removal.SUPERSEDED, 1), (Removal.SUPERSEDED, 2)]
    assert room.store.occupancy().entries == 1


def test_a_guess_is_settled_once():
    """After that it is an entry like any other."""
    room = Room()
    room.put(1, 2, 3, 4, tentative=True)
    room.ask(1, 2, 3, 4, 5)
    room.put(1, 2)

    room.ask(1, 2, 3, 4, 5)

    assert room.removed() == []


def test_a_wrong_guess_serves_nobody_and_takes_nothing():
    """The entry before it is the one that is hit."""
    room = Room()
    room.put(1, 2)
    room.put(1, 2, 3, 4, tentative=True)

    assert room.ask(1, 2, 9, 9) == 2
    assert room.removed() == []


def test_a_guess_that_is_only_cut_back_is_not_proved_right():
    """The request left it before its end, so what it guessed has not come."""
    room = Room()
    room.put(1, 2)
    room.put(1, 2, 3, 4, tentative=True, payload=Block(1, cuts_from=0))

    assert room.ask(1, 2, 3, 9) == 3
    assert room.removed() == []


def test_a_later_entry_supersedes_a_guess_like_any_other():
    """The next turn's own boundary needs no settled guess."""
    room = Room()
    room.put(1, 2)
    room.put(1, 2, 3, 4, tentative=True)

    room.put(1, 2, 3, 4, 5)

    assert room.removed() == [(Removal.SUPERSEDED, 2), (Removal.SUPERSEDED, 4)]


def test_a_guess_of_what_is_there_already_replaces_it():
    """The same tokens in the same place are one entry."""
    room = Room()
    room.put(1, 2)
    room.put(1, 2, tentative=True)

    assert room.removed() == [(Removal.REPLACED, 2)]


def test_without_supersede_a_guess_that_is_hit_removes_nothing():
    """The operator has switched succession off."""
    room = Room(supersede=False)
    room.put(1, 2)
    room.put(1, 2, 3, 4, tentative=True)
    room.ask(1, 2, 3, 4, 5)

    assert room.removed() == []


def test_a_guess_that_proves_right_lets_ancestors_be_kept():
    """Where ancestors are kept, what it supersedes becomes one."""
    room = Room(keep_ancestors=1)
    room.put(1, 2)
    room.put(1, 2, 3, 4, tentative=True)
    room.ask(1, 2, 3, 4, 5)

    assert room.removed() == []
    assert room.ask(1, 2, 9) == 2


def test_a_guess_that_is_kept_as_an_ancestor_guesses_nothing_any_more():
    """The conversation is past it: a hit brings it back, and takes no other entry's place."""
    room = Room(keep_ancestors=1)
    room.put(1, 2, 3, 4, tentative=True)
    room.put(1, 2, 3, 4, 5)
    room.put(1, 2)

    assert room.ask(1, 2, 3, 4, 9) == 4
    assert room.removed() == []
    assert room.store.occupancy().entries == 3
