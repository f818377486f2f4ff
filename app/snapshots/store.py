"""Keeps model state of conversations within limits and says what happened. Knows no MLX, HTTP or metrics."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Generic, NamedTuple

from app.bus import Emit, discard
from app.clock import Clock, monotonic
from app.events import (
    Demand,
    EntryFacts,
    Growth,
    LookupHit,
    LookupMissed,
    Miss,
    Occupancy,
    Origin,
    Rejection,
    Removal,
    SnapshotInserted,
    SnapshotRejected,
    StoreCall,
    TraceRef,
)
from app.snapshots.census import Census
from app.snapshots.departures import Departures, Journal
from app.snapshots.entry import BYTES_PER_TOKEN, Bucket, Entry, P, TokenBytes, token_count
from app.snapshots.ghosts import Ghosts
from app.snapshots.holdings import Holdings
from app.snapshots.limits import Limits
from app.snapshots.lookup import Candidate, Found, look_up
from app.snapshots.outbox import Outbox
from app.snapshots.share import Quota, no_quota
from app.snapshots.succession import standing_after_use
from app.snapshots.verdict import verdict


class Cleared(NamedTuple):
    """What a `clear` removed."""

    entries: int
    nbytes: int


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
        quota: what each tenant may hold of it; asked under the lock.
    """

    def __init__(
        self,
        limits: Limits,
        *,
        clock: Clock = monotonic,
        emit: Emit = discard,
        quota: Quota = no_quota,
    ) -> None:
        self._limits = limits
        self._quota = quota
        self._clock = clock
        self._lock = threading.Lock()
        self._census = Census()
        self._held: Holdings[P] = Holdings(self._census)
        self._ghosts: Ghosts[P] = Ghosts(limits, self._census)
        self._leaving = Departures(self._held, self._ghosts, limits)
        self._outbox = Outbox(emit)
        self._last_id = 0
        self._refused = 0

    @property
    def limits(self) -> Limits:
        """What the store may hold now."""
        return self._limits

    def grow(self, capacity_bytes: int) -> None:
        """Let the store hold so many bytes from now on, if that is more than it may already."""
        with self._lock:
            if capacity_bytes > self._limits.capacity_bytes:
                self._limits = replace(self._limits, capacity_bytes=capacity_bytes)
                self._leaving.set_limits(self._limits)
                self._ghosts.set_limits(self._limits)

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
            self._leaving.remove_expired(journal)
            if not self._limits.enabled:
                reason = Miss.DISABLED
            elif prompt_tokens <= self._limits.min_prefix_tokens:
                reason = Miss.TOO_SHORT
            elif not self._held.of(bucket.tenant):
                reason = Miss.EMPTY
            else:
                candidates, reason, common = look_up(
                    self._held.index, self._limits, bucket=bucket, session=session, tokens=tokens
                )
                growth = self._reach(bucket, session, tokens, journal.now, candidates)
                times = journal.now, self._clock()
                return Found(candidates, reason, common, prompt_tokens, tokens, *times, growth, bucket.tenant)
            growth = self._reach(bucket, session, tokens, journal.now) if reason is Miss.EMPTY else None
            times = journal.now, self._clock()
            return Found((), reason, 0, prompt_tokens, tokens, *times, growth, bucket.tenant)

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
                    growth=found.growth,
                )
            )

    def has_anchor(self, *, bucket: Bucket, tokens: TokenBytes) -> bool:
        """Whether the bucket holds a `system` snapshot of exactly `tokens`; O(tokens).

        Expired entries are removed first, as `find` does. It is no lookup: nothing is counted or touched.
        """
        with self._transaction(StoreCall.SWEEP) as journal:
            self._leaving.remove_expired(journal)
            return bool(self._held.index.shared(bucket, tokens).equal)

    def miss(self, found: Found[P], *, failed_restores: int = 0, cause: TraceRef | None = None) -> Miss:
        """Say that the request starts cold; the reason is the one in `found`."""
        with self._transaction(StoreCall.LOOKUP, cause, found) as journal:
            journal.events.append(
                LookupMissed(
                    found.reason,
                    found.prompt_tokens,
                    found.common_prefix_tokens,
                    failed_restores,
                    found.growth,
                    found.tenant,
                )
            )
        return found.reason

    def skip(
        self, reason: Miss, *, prompt_tokens: int, tenant: str = "", cause: TraceRef | None = None
    ) -> None:
        """Say that a request starts cold without a lookup."""
        with self._transaction(StoreCall.LOOKUP, cause) as journal:
            journal.events.append(LookupMissed(reason, prompt_tokens, 0, 0, tenant=tenant))

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
        tenant = bucket.tenant
        with self._transaction(StoreCall.INSERT, cause) as journal:
            facts = EntryFacts(
                self._last_id + 1,
                origin,
                session,
                token_count(tokens),
                payload.nbytes,
                payload.arrays,
                tenant,
            )
            # Asked once: it may change between two questions.
            quota = self._quota(tenant)
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
                journal.events.append(self._rejected(reason, facts, quota))
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

    def refuse(
        self,
        reason: Rejection,
        *,
        origin: Origin,
        session: str | None,
        tokens: int,
        nbytes: int,
        tenant: str = "",
        cause: TraceRef | None = None,
    ) -> None:
        """Say that a snapshot was refused before it reached the store."""
        with self._transaction(StoreCall.INSERT, cause) as journal:
            facts = EntryFacts(0, origin, session, tokens, nbytes, 0, tenant)
            journal.events.append(self._rejected(reason, facts, self._quota(tenant)))

    def sweep(self) -> int:
        """Remove what has expired; costs what it removes. Returns how many entries went."""
        with self._transaction(StoreCall.SWEEP) as journal:
            self._leaving.remove_expired(journal)
            return len(journal.events)

    def clear(self, tenant: str | None = None) -> Cleared:
        """Remove everything, or all of one tenant. The numbers are those of the very removal."""
        with self._transaction(StoreCall.CLEAR) as journal:
            cleared = self._remove_all(self._held if tenant is None else self._held.of(tenant), journal)
            self._ghosts.clear(tenant)
            return cleared

    def forget_session(self, tenant: str, session: str) -> Cleared:
        """Remove all of one session, which holds no system prompts. The numbers are of the very removal."""
        with self._transaction(StoreCall.CLEAR) as journal:
            going = self._held.index.of_session(tenant, session)
            going.sort(key=lambda entry: (entry.standing, entry.used))
            cleared = self._remove_all(going, journal)
            self._ghosts.forget_session(tenant, session)
            return cleared

    def _remove_all(self, entries: Iterable[Entry[P]], journal: Journal) -> Cleared:
        going = list(entries)
        for entry in going:
            self._leaving.remove(entry, Removal.CLEARED, journal)
        return Cleared(len(going), sum(entry.facts.nbytes for entry in going))

    def shed(self, nbytes: int, *, cause: TraceRef | None = None) -> int:
        """Free at least `nbytes` for others, or all there is: expired entries, then in the order of leaving.

        Returns the bytes freed.
        """
        with self._transaction(StoreCall.SHED, cause) as journal:
            before = self._held.nbytes
            self._leaving.remove_expired(journal)
            while self._held and before - self._held.nbytes < nbytes:
                self._leaving.make_room(next(iter(self._held)), Removal.PRESSURE, journal)
            return before - self._held.nbytes

    def _rejected(self, reason: Rejection, facts: EntryFacts, quota: int | None) -> SnapshotRejected:
        most = self._limits.capacity_bytes if quota is None else min(self._limits.capacity_bytes, quota)
        return SnapshotRejected(
            reason, facts.origin, facts.session, facts.tokens, facts.nbytes, most, facts.tenant
        )

    def _reach(
        self,
        bucket: Bucket,
        session: str | None,
        tokens: TokenBytes,
        now: float,
        candidates: tuple[Candidate[P], ...] = (),
    ) -> Growth | None:
        """With how much more memory there would be a better candidate than the best there is."""
        more_than = candidates[0].use_tokens if candidates else 0
        return self._ghosts.reach(bucket=bucket, session=session, tokens=tokens, more_than=more_than, now=now)

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

    def _settle(self, entry: Entry[P], found: Found[P], journal: Journal) -> None:
        """The guess was right: what `entry` stands in for makes way now."""
        own = TokenBytes(found.tokens[: entry.facts.tokens * BYTES_PER_TOKEN])
        superseded = self._leaving.superseded_by(entry, self._held.index.around(entry, own))
        entry.tentative = False
        self._leaving.supersede(entry, superseded, journal)
        self._leaving.supersede_ghosts(entry, own)

    @contextmanager
    def _transaction(
        self, call: StoreCall, cause: TraceRef | None = None, found: Found[P] | None = None
    ) -> Iterator[Journal]:
        """Hold the lock, read the clock once, collect events; post them, release, then deliver.

        `found`: the lookup that this call concludes, whose times are the transaction's.
        """
        try:
            with self._lock:
                journal = Journal(self._clock(), [])
                try:
                    yield journal
                finally:
                    # Also when a payload raised: what was done before that is done, and must be told.
                    if journal.events:
                        held = self._held
                        self._ghosts.settle(len(held), held.nbytes, held.arrays, journal.now)
                        started, ended = (
                            (found.started, found.ended) if found else (journal.now, self._clock())
                        )
                        self._outbox.post(
                            call=call,
                            cause=cause,
                            started=started,
                            ended=ended,
                            events=journal.events,
                            occupancy=held.occupancy(),
                            demand=Demand(held.nbytes + self._ghosts.nbytes, len(self._census)),
                        )
        finally:
            self._outbox.deliver()
