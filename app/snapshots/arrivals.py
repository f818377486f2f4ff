"""Takes snapshots into the store or says why not: replace, supersede, hold. What goes, departures take."""

from dataclasses import replace
from typing import Generic

from app.events import EntryFacts, SnapshotInserted, SnapshotRejected, TraceRef
from app.snapshots.departures import Departures, Journal
from app.snapshots.entry import BYTES_PER_TOKEN, Bucket, Entry, P, TokenBytes, token_count
from app.snapshots.ghosts import Ghosts
from app.snapshots.holdings import Holdings
from app.snapshots.limits import Limits
from app.snapshots.succession import standing_after_use
from app.snapshots.verdict import verdict
from app.vocabulary import Origin, Rejection, Removal


class Arrivals(Generic[P]):
    """Every way into the store, and what an entry's coming and its use change for others.

    Not thread-safe: its owner has the lock.

    Args:
        held: what it puts entries into.
        ghosts: told what a larger store would have taken.
        leaving: what makes way for a newcomer leaves through it.
        limits: what may be held.
    """

    def __init__(self, held: Holdings[P], ghosts: Ghosts[P], leaving: Departures[P], limits: Limits) -> None:
        self._held = held
        self._ghosts = ghosts
        self._leaving = leaving
        self._limits = limits
        self._last_id = 0
        self._refused = 0

    def set_limits(self, limits: Limits) -> None:
        """Other limits hold from now on."""
        self._limits = limits

    def insert(
        self,
        *,
        bucket: Bucket,
        session: str | None,
        origin: Origin,
        tokens: TokenBytes,
        payload: P,
        tentative: bool,
        quota: int | None,
        cause: TraceRef | None,
        journal: Journal,
    ) -> Rejection | None:
        """Store the state of exactly `tokens`, or say why not; all checks come before the first removal.

        `quota`: the most bytes of its tenant.
        """
        facts = EntryFacts(
            self._last_id + 1,
            origin,
            session,
            token_count(tokens),
            payload.nbytes,
            payload.arrays,
            bucket.tenant,
        )
        entry = Entry(
            facts,
            bucket,
            payload,
            journal.now,
            cause,
            last_used=journal.now,
            tentative=tentative,
        )
        reason, remembered = verdict(
            facts, limits=self._limits, held=self._held, quota=quota, tentative=tentative
        )
        if reason is not None:
            if remembered:
                self._remember_refused(entry, tokens, quota)
            self.refuse(reason, facts, journal, quota=quota)
            return reason
        self._last_id = facts.id
        walk = self._held.index.around(entry, tokens)
        # All payloads are asked before the first removal: a question that fails leaves all as it was.
        superseded = [] if tentative else self._leaving.superseded_by(entry, walk)
        entry.cuts = self._can_be_cut(entry)
        for equal in walk.equal:
            if equal.facts.origin is origin:
                self._leaving.remove(equal, Removal.REPLACED, journal)
        self._leaving.supersede(entry, superseded, journal)
        self._leaving.supersede_ghosts(entry, tokens)
        self._held.add(entry, tokens)
        if tentative:
            self._leaving.tie(entry, walk)
        journal.events.append(SnapshotInserted(entry.facts))
        self._leaving.remove_expired(journal)
        self._leaving.enforce_caps(entry, walk, journal, quota=quota)
        return None

    def refuse(self, reason: Rejection, facts: EntryFacts, journal: Journal, *, quota: int | None) -> None:
        """Say that a snapshot with those facts was refused; nothing else is touched."""
        most = self._limits.capacity_bytes if quota is None else min(self._limits.capacity_bytes, quota)
        journal.events.append(
            SnapshotRejected(
                reason, facts.origin, facts.session, facts.tokens, facts.nbytes, most, facts.tenant
            )
        )

    def use(self, entry: Entry[P], use_tokens: int, tokens: TokenBytes, journal: Journal) -> None:
        """Make `entry` the most recently used: `use_tokens` of it go on as a request of `tokens`."""
        whole = use_tokens == entry.facts.tokens
        if whole and entry.tentative:
            self._settle(entry, tokens, journal)
        self._held.use(entry, journal.now, standing_after_use(entry, whole=whole))

    def _settle(self, entry: Entry[P], tokens: TokenBytes, journal: Journal) -> None:
        """The guess was right: what `entry` stands in for makes way now. `tokens` begin with its own."""
        own = TokenBytes(tokens[: entry.facts.tokens * BYTES_PER_TOKEN])
        superseded = self._leaving.superseded_by(entry, self._held.index.around(entry, own))
        entry.tentative = False
        self._leaving.supersede(entry, superseded, journal)
        self._leaving.supersede_ghosts(entry, own)

    def _remember_refused(self, entry: Entry[P], tokens: TokenBytes, quota: int | None) -> None:
        """A larger store would have taken it. Ids of what never entered are below zero."""
        entry.cuts = self._can_be_cut(entry)
        self._refused += 1
        entry.facts = replace(entry.facts, id=-self._refused)
        self._leaving.supersede_ghosts(entry, tokens)
        if entry.tentative:
            self._leaving.tie(entry, self._held.index.around(entry, tokens))
        self._ghosts.remember(entry, tokens)
        if quota is not None:
            tenant = entry.bucket.tenant
            self._ghosts.fit(tenant, quota - self._held.of(tenant).nbytes)

    def _can_be_cut(self, entry: Entry[P]) -> bool:
        """Whether it can be cut back to the least that is ever asked for, and so to anything."""
        return entry.payload.can_truncate_to(min(self._limits.min_prefix_tokens, entry.facts.tokens))
