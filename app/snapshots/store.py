"""Keeps model state of conversations within limits and says what happened. Knows no MLX, HTTP or metrics."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Generic, NamedTuple

from app.bus import Emit, discard
from app.clock import Clock, monotonic
from app.events import Demand, EntryFacts, LookupHit, LookupMissed, Occupancy, TraceRef
from app.snapshots.arrivals import Arrivals
from app.snapshots.census import Census
from app.snapshots.departures import Departures, Journal
from app.snapshots.entry import Bucket, Entry, P, TokenBytes, token_count
from app.snapshots.ghosts import Ghosts
from app.snapshots.holdings import Holdings
from app.snapshots.limits import Limits
from app.snapshots.lookup import Candidate, Found, look_up
from app.snapshots.outbox import Outbox
from app.snapshots.share import Quota, no_quota
from app.vocabulary import Growth, Miss, Origin, Rejection, Removal, StoreCall


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
        self._arriving = Arrivals(self._held, self._ghosts, self._leaving, limits)
        self._outbox = Outbox(emit)

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
                self._arriving.set_limits(self._limits)
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
                self._arriving.use(entry, candidate.use_tokens, found.tokens, journal)
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
        with self._transaction(StoreCall.INSERT, cause) as journal:
            return self._arriving.insert(
                bucket=bucket,
                session=None if origin is Origin.SYSTEM else session,
                origin=origin,
                tokens=tokens,
                payload=payload,
                tentative=tentative,
                # Asked once: it may change between two questions.
                quota=self._quota(bucket.tenant),
                cause=cause,
                journal=journal,
            )

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
            self._arriving.refuse(reason, facts, journal, quota=self._quota(tenant))

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
