"""Takes entries out of the store and says so: superseded, expired, or to make room. It decides no insert."""

from dataclasses import dataclass
from typing import Generic

from app.events import SnapshotEvent, SnapshotRemoved
from app.snapshots.entry import Entry, P, Standing, TokenBytes
from app.snapshots.ghosts import Ghosts
from app.snapshots.holdings import Holdings
from app.snapshots.limits import Limits
from app.snapshots.succession import (
    Superseded,
    becoming_kept,
    next_victim,
    same_session,
    superseded_by,
    turn_boundary,
)
from app.snapshots.tree import Walk
from app.vocabulary import Removal

EVICTIONS = frozenset({Removal.LRU_BYTES, Removal.LRU_ENTRIES, Removal.LRU_ARRAYS, Removal.PRESSURE})
"""Removals for want of room: more of it would have kept the entry."""


@dataclass(slots=True)
class Journal:
    """One transaction under way. `now` is its only reading of the clock that decides anything."""

    now: float
    events: list[SnapshotEvent]


class Departures(Generic[P]):
    """Every way out of the store. Not thread-safe: its owner has the lock.

    Args:
        held: what it takes entries from.
        ghosts: told what has to go for want of room, and what would not be needed any more.
        limits: what may be held.
    """

    def __init__(self, held: Holdings[P], ghosts: Ghosts[P], limits: Limits) -> None:
        self._held = held
        self._ghosts = ghosts
        self._limits = limits
        # A boundary's id → the ids of the guesses at what follows it.
        self._guesses: dict[int, list[int]] = {}

    def set_limits(self, limits: Limits) -> None:
        """Other limits hold from now on; nothing leaves before the next call."""
        self._limits = limits

    def remove(
        self,
        entry: Entry[P],
        reason: Removal,
        journal: Journal,
        *,
        self_eviction: bool = False,
        for_quota: bool = False,
    ) -> None:
        """Let go of `entry`, which must be held. `for_quota`: a larger store would not have kept it."""
        if reason in EVICTIONS and not for_quota:
            self._ghosts.remember(entry, self._held.index.tokens(entry))
        self._held.remove(entry)
        self._guesses.pop(entry.facts.id, None)
        journal.events.append(
            SnapshotRemoved(
                entry=entry.facts,
                reason=reason,
                age_seconds=journal.now - entry.created,
                idle_seconds=journal.now - entry.last_used,
                hits=entry.hits,
                self_eviction=self_eviction,
                inserted_by=entry.inserted_by,
            )
        )

    def remove_expired(self, journal: Journal) -> None:
        """Remove what is dead; costs what it removes."""
        for standing in Standing:
            while (oldest := self._held.first(standing)) is not None:
                if not self._limits.expired(journal.now - oldest.last_used):
                    break
                self.remove(oldest, Removal.TTL, journal)

    def make_room(
        self,
        victim: Entry[P],
        reason: Removal,
        journal: Journal,
        *,
        self_eviction: bool = False,
        for_quota: bool = False,
    ) -> None:
        """Remove `victim` for `reason`; but a kept one was superseded long ago, and is no eviction now."""
        if victim.standing is Standing.KEPT:
            self.remove(victim, Removal.SUPERSEDED, journal)
        else:
            self.remove(victim, reason, journal, self_eviction=self_eviction, for_quota=for_quota)

    def enforce_caps(self, newcomer: Entry[P], walk: Walk[P], journal: Journal, *, quota: int | None) -> None:
        """Remove others until all limits hold, those of the newcomer's own tenant first.

        `walk` is what stood around the newcomer before it came. `quota`: the most bytes of its tenant.
        """
        held = self._held
        tenant = newcomer.bucket.tenant
        boundary = turn_boundary(newcomer, walk, held)
        if quota is not None:
            # A larger store has the same quotas, and its ghosts of this tenant would leave before these.
            self._ghosts.fit(tenant, quota - held.of(tenant).nbytes)
            while held.of(tenant).nbytes > quota:
                victim = next_victim(held.of(tenant), newcomer, boundary)
                own = same_session(victim, newcomer)
                self.make_room(victim, Removal.LRU_BYTES, journal, self_eviction=own, for_quota=True)
        while (reason := self._limits.exceeded(len(held), held.nbytes, held.arrays)) is not None:
            victim = next_victim(held, newcomer, boundary)
            self.make_room(victim, reason, journal, self_eviction=same_session(victim, newcomer))

    def superseded_by(self, newcomer: Entry[P], walk: Walk[P]) -> list[Superseded[P]]:
        """What `newcomer` stands in for, where the limits let anything be superseded."""
        return superseded_by(newcomer, walk) if self._limits.supersede else []

    def supersede(self, successor: Entry[P], superseded: list[Superseded[P]], journal: Journal) -> None:
        """Remove what `successor` stands in for, but for the ancestors that its session may keep."""
        most = self._limits.keep_ancestors
        staying = becoming_kept(superseded, most)
        refuted = [guess for old, _ in superseded for guess in self._guesses_from(old.facts.id)]
        for old, contained in superseded:
            if old in staying:
                self._held.keep(old, journal.now)
                # The conversation is past what it guessed.
                old.tentative = False
            elif contained or old.standing is not Standing.KEPT:
                self.remove(old, Removal.SUPERSEDED, journal)
        for guess in refuted:
            if guess is not successor and guess.tentative and self._held.get(guess.facts.id) is guess:
                self.remove(guess, Removal.SUPERSEDED, journal)
        kept = self._held.kept(successor.bucket, successor.facts.session)
        for old in kept[: max(0, len(kept) - most)]:
            self.remove(old, Removal.SUPERSEDED, journal)

    def supersede_ghosts(self, successor: Entry[P], tokens: TokenBytes) -> None:
        """Forget the ghosts that `successor` stands in for, and what was guessed to follow them."""
        for old in self._ghosts.make_way(successor, tokens):
            self._guesses_from(old)

    def tie(self, guess: Entry[P], walk: Walk[P]) -> None:
        """Let `guess` go with the boundary that it was made from; `walk` is what stands around it.

        Also one that was refused: in a larger store it would be held.
        """
        boundary = turn_boundary(guess, walk, self._held)
        if boundary is not None:
            self._guesses.setdefault(boundary.facts.id, []).append(guess.facts.id)

    def _guesses_from(self, boundary: int) -> list[Entry[P]]:
        """What was guessed to follow the boundary of that id, as far as it is still held; asked once."""
        guesses = self._guesses.pop(boundary, ())
        for guess in guesses:
            self._ghosts.forget(guess)
        return [held for held in map(self._held.get, guesses) if held is not None]
