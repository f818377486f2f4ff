"""Keeps model state of conversations within limits and says what happened. Knows no MLX, HTTP or metrics."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, NamedTuple

from app.bus import Emit, discard
from app.clock import Clock, monotonic
from app.events import (
    EntryFacts,
    LookupHit,
    LookupMissed,
    Miss,
    Occupancy,
    Origin,
    Rejection,
    Removal,
    SnapshotEvent,
    SnapshotInserted,
    SnapshotRejected,
    SnapshotRemoved,
    StoreCall,
    TraceRef,
)
from app.snapshots.entry import BYTES_PER_TOKEN, Bucket, Entry, P, Standing, TokenBytes, token_count
from app.snapshots.holdings import Holdings
from app.snapshots.limits import Limits
from app.snapshots.lookup import Candidate, Found, look_up
from app.snapshots.outbox import Outbox
from app.snapshots.succession import (
    Superseded,
    becoming_kept,
    next_victim,
    same_session,
    standing_after_use,
    superseded_by,
    turn_boundary,
)
from app.snapshots.tree import Walk


class Cleared(NamedTuple):
    """What a `clear` removed."""

    entries: int
    nbytes: int


@dataclass(slots=True)
class _Journal:
    """One transaction under way. `now` is its only reading of the clock that decides anything."""

    now: float
    events: list[SnapshotEvent]


class SnapshotStore(Generic[P]):
    """Snapshots by token prefix: supersede, least recently used, sliding time to live, oversized rejection.

    Any thread may call it. Every call is one transaction under one lock; what it did is emitted after the
    lock is released and before the call returns, in order of `seq` over all threads. A call that did
    nothing emits nothing. The listener may call the store; what that does is emitted after it returns.

    Payloads are asked `nbytes`, `arrays` and `can_truncate_to` under the lock: plain facts, no work.

    Args:
        limits: what it may hold.
        clock: monotonic seconds.
        emit: takes every `Transaction`; must not raise (`app.bus.Bus.publish` does not).
    """

    def __init__(self, limits: Limits, *, clock: Clock = monotonic, emit: Emit = discard) -> None:
        self._limits = limits
        self._clock = clock
        self._lock = threading.Lock()
        self._held: Holdings[P] = Holdings()
        self._outbox = Outbox(emit)
        self._last_id = 0
        # A boundary's id → the ids of the guesses at what follows it.
        self._guesses: dict[int, list[int]] = {}

    @property
    def limits(self) -> Limits:
        """What the store may hold; never changes."""
        return self._limits

    def occupancy(self) -> Occupancy:
        """What the store holds now."""
        with self._lock:
            return self._held.occupancy()

    def find(self, *, bucket: Bucket, session: str | None, tokens: TokenBytes) -> Found[P]:
        """What a request of `tokens` may start from. A question: nothing is counted or touched by it.

        Expired entries are removed first, in a transaction of their own, as `sweep` does.
        """
        prompt_tokens = token_count(tokens)
        with self._transaction(StoreCall.SWEEP) as journal:
            self._remove_expired(journal)
            if not self._limits.enabled:
                reason = Miss.DISABLED
            elif prompt_tokens <= self._limits.min_prefix_tokens:
                reason = Miss.TOO_SHORT
            elif not self._held:
                reason = Miss.EMPTY
            else:
                candidates, reason, common = look_up(
                    self._held.index, self._limits, bucket=bucket, session=session, tokens=tokens
                )
                return Found(candidates, reason, common, prompt_tokens, tokens, journal.now, self._clock())
            return Found((), reason, 0, prompt_tokens, tokens, journal.now, self._clock())

    def hit(
        self,
        found: Found[P],
        candidate: Candidate[P],
        *,
        failed_restores: int = 0,
        cause: TraceRef | None = None,
    ) -> None:
        """Say that `candidate` is restored and in use: its entry becomes the most recently used.

        An entry that was removed since `find` is a hit all the same: its state is in use.
        """
        with self._transaction(StoreCall.LOOKUP, cause, found) as journal:
            entry = self._held.get(candidate.entry.id)
            if entry is not None:
                whole = candidate.use_tokens == entry.facts.tokens
                if whole and entry.tentative:
                    self._settle(entry, found, journal)
                self._held.use(entry, journal.now, standing_after_use(entry, whole=whole))
            journal.events.append(
                LookupHit(
                    entry=candidate.entry,
                    prompt_tokens=found.prompt_tokens,
                    reused_tokens=candidate.use_tokens,
                    reuse_gap_seconds=found.started - candidate.last_used,
                    failed_restores=failed_restores,
                )
            )

    def has_anchor(self, *, bucket: Bucket, tokens: TokenBytes) -> bool:
        """Whether the bucket holds a `system` snapshot of exactly `tokens`; O(tokens).

        Expired entries are removed first, as `find` does. It is no lookup: nothing is counted or touched.
        """
        with self._transaction(StoreCall.SWEEP) as journal:
            self._remove_expired(journal)
            return bool(self._held.index.shared(bucket, tokens).equal)

    def miss(self, found: Found[P], *, failed_restores: int = 0, cause: TraceRef | None = None) -> Miss:
        """Say that the request starts cold; the reason is the one in `found`."""
        with self._transaction(StoreCall.LOOKUP, cause, found) as journal:
            journal.events.append(
                LookupMissed(found.reason, found.prompt_tokens, found.common_prefix_tokens, failed_restores)
            )
        return found.reason

    def skip(self, reason: Miss, *, prompt_tokens: int, cause: TraceRef | None = None) -> None:
        """Say that a request starts cold without a lookup."""
        with self._transaction(StoreCall.LOOKUP, cause) as journal:
            journal.events.append(LookupMissed(reason, prompt_tokens, 0, 0))

    def insert(
        self,
        *,
        bucket: Bucket,
        session: str | None,
        origin: Origin,
        tokens: TokenBytes,
        payload: P,
        tentative: bool = False,
        cause: TraceRef | None = None,
    ) -> Rejection | None:
        """Store the state of exactly `tokens`, or say why not; a rejection touches nothing else.

        A `system` snapshot belongs to no session, whatever `session` says. A `tentative` one is a guess at
        what will be asked for: it takes the place of what it stands in for when first hit, not before. It
        costs no other entry its place (`low_memory`), and goes as `superseded` if its conversation goes on
        otherwise.
        """
        session = None if origin is Origin.SYSTEM else session
        with self._transaction(StoreCall.INSERT, cause) as journal:
            facts = EntryFacts(
                self._last_id + 1, origin, session, token_count(tokens), payload.nbytes, payload.arrays
            )
            reason = self._limits.rejection(facts.tokens, facts.nbytes, facts.arrays)
            if reason is None and tentative and not self._has_room_for(facts):
                reason = Rejection.LOW_MEMORY
            if reason is not None:
                journal.events.append(self._rejected(reason, origin, session, facts.tokens, facts.nbytes))
                return reason
            self._last_id = facts.id
            entry = Entry(
                facts, bucket, payload, journal.now, cause, last_used=journal.now, tentative=tentative
            )
            walk = self._held.index.around(entry, tokens)
            # All payloads are asked before the first removal: a question that fails leaves all as it was.
            superseded = [] if tentative else self._superseded_by(entry, walk)
            for equal in walk.equal:
                if equal.facts.origin is origin:
                    self._remove(equal, Removal.REPLACED, journal)
            self._supersede(entry, superseded, journal)
            self._held.add(entry, tokens)
            if tentative and (boundary := turn_boundary(entry, walk, self._held)) is not None:
                self._guesses.setdefault(boundary.facts.id, []).append(facts.id)
            journal.events.append(SnapshotInserted(entry.facts))
            self._remove_expired(journal)
            self._enforce_caps(entry, walk, journal)
        return None

    def refuse(
        self,
        reason: Rejection,
        *,
        origin: Origin,
        session: str | None,
        tokens: int,
        nbytes: int,
        cause: TraceRef | None = None,
    ) -> None:
        """Say that a snapshot was refused before it reached the store."""
        with self._transaction(StoreCall.INSERT, cause) as journal:
            journal.events.append(self._rejected(reason, origin, session, tokens, nbytes))

    def sweep(self) -> int:
        """Remove what has expired; costs what it removes. Returns how many entries went."""
        with self._transaction(StoreCall.SWEEP) as journal:
            self._remove_expired(journal)
            return len(journal.events)

    def clear(self) -> Cleared:
        """Remove everything. The numbers are those of the very removal."""
        with self._transaction(StoreCall.CLEAR) as journal:
            cleared = Cleared(len(self._held), self._held.nbytes)
            for entry in list(self._held):
                self._remove(entry, Removal.CLEARED, journal)
            return cleared

    def shed(self, nbytes: int, *, cause: TraceRef | None = None) -> int:
        """Free at least `nbytes` for others, or all there is: expired entries, then in the order of leaving.

        Returns the bytes freed.
        """
        with self._transaction(StoreCall.SHED, cause) as journal:
            before = self._held.nbytes
            self._remove_expired(journal)
            while self._held and before - self._held.nbytes < nbytes:
                self._make_room(next(iter(self._held)), Removal.PRESSURE, journal)
            return before - self._held.nbytes

    def _rejected(
        self, reason: Rejection, origin: Origin, session: str | None, tokens: int, nbytes: int
    ) -> SnapshotRejected:
        return SnapshotRejected(reason, origin, session, tokens, nbytes, self._limits.capacity_bytes)

    def _has_room_for(self, facts: EntryFacts) -> bool:
        held = self._held
        totals = (len(held) + 1, held.nbytes + facts.nbytes, held.arrays + facts.arrays)
        return self._limits.exceeded(*totals) is None

    def _enforce_caps(self, newcomer: Entry[P], walk: Walk[P], journal: _Journal) -> None:
        held = self._held
        boundary = turn_boundary(newcomer, walk, held)
        while (reason := self._limits.exceeded(len(held), held.nbytes, held.arrays)) is not None:
            victim = next_victim(held, newcomer, boundary)
            self._make_room(victim, reason, journal, self_eviction=same_session(victim, newcomer))

    def _make_room(
        self, victim: Entry[P], reason: Removal, journal: _Journal, *, self_eviction: bool = False
    ) -> None:
        """Remove `victim` for `reason`; but a kept one was superseded long ago, and is no eviction now."""
        if victim.standing is Standing.KEPT:
            self._remove(victim, Removal.SUPERSEDED, journal)
        else:
            self._remove(victim, reason, journal, self_eviction=self_eviction)

    def _superseded_by(self, newcomer: Entry[P], walk: Walk[P]) -> list[Superseded[P]]:
        return superseded_by(newcomer, walk) if self._limits.supersede else []

    def _settle(self, entry: Entry[P], found: Found[P], journal: _Journal) -> None:
        """The guess was right: what `entry` stands in for makes way now."""
        own = TokenBytes(found.tokens[: entry.facts.tokens * BYTES_PER_TOKEN])
        superseded = self._superseded_by(entry, self._held.index.around(entry, own))
        entry.tentative = False
        self._supersede(entry, superseded, journal)

    def _supersede(self, successor: Entry[P], superseded: list[Superseded[P]], journal: _Journal) -> None:
        """Remove what `successor` stands in for, but for the ancestors that its session may keep."""
        most = self._limits.keep_ancestors
        staying = becoming_kept(superseded, most)
        refuted = [guess for old, _ in superseded for guess in self._guesses_from(old)]
        for old, contained in superseded:
            if old in staying:
                self._held.keep(old, journal.now)
                # The conversation is past what it guessed.
                old.tentative = False
            elif contained or old.standing is not Standing.KEPT:
                self._remove(old, Removal.SUPERSEDED, journal)
        for guess in refuted:
            if guess is not successor and guess.tentative and self._held.get(guess.facts.id) is guess:
                self._remove(guess, Removal.SUPERSEDED, journal)
        kept = self._held.kept(successor.bucket, successor.facts.session)
        for old in kept[: max(0, len(kept) - most)]:
            self._remove(old, Removal.SUPERSEDED, journal)

    def _guesses_from(self, boundary: Entry[P]) -> list[Entry[P]]:
        """What was guessed to follow `boundary`, as far as it is still held; asked once."""
        guesses = map(self._held.get, self._guesses.pop(boundary.facts.id, ()))
        return [guess for guess in guesses if guess is not None]

    def _remove_expired(self, journal: _Journal) -> None:
        for standing in Standing:
            while (oldest := self._held.first(standing)) is not None:
                if not self._limits.expired(journal.now - oldest.last_used):
                    break
                self._remove(oldest, Removal.TTL, journal)

    def _remove(
        self, entry: Entry[P], reason: Removal, journal: _Journal, *, self_eviction: bool = False
    ) -> None:
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

    @contextmanager
    def _transaction(
        self, call: StoreCall, cause: TraceRef | None = None, found: Found[P] | None = None
    ) -> Iterator[_Journal]:
        """Hold the lock, read the clock once, collect events; post them, release, then deliver.

        `found`: the lookup that this call concludes, whose times are the transaction's.
        """
        try:
            with self._lock:
                journal = _Journal(self._clock(), [])
                try:
                    yield journal
                finally:
                    # Also when a payload raised: what was done before that is done, and must be told.
                    if journal.events:
                        started, ended = (
                            (found.started, found.ended) if found else (journal.now, self._clock())
                        )
                        self._outbox.post(
                            call=call,
                            cause=cause,
                            started=started,
                            ended=ended,
                            events=journal.events,
                            occupancy=self._held.occupancy(),
                        )
        finally:
            self._outbox.deliver()
