"""The store's rules, read aloud: one list of entries, scanned whole for every question.

Written from the rules and not from the store: it has no index, no running totals, no lock, and compares
token by token. What it and the store disagree on is a mistake in one of them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from app.events import (
    LookupHit,
    LookupMissed,
    SnapshotEvent,
    SnapshotInserted,
    SnapshotRejected,
    SnapshotRemoved,
    TraceRef,
    Transaction,
)
from app.snapshots.entry import Bucket, Payload
from app.snapshots.limits import Limits
from app.vocabulary import Miss, Origin, Rejection, Removal, StoreCall
from tests.property.oracle_lookup import Answer, look
from tests.property.oracle_rows import Row, Rows, Tokens


@dataclass
class Oracle(Rows):
    """The store's rules over `rows`."""

    limits: Limits
    clock: Callable[[], float]
    transactions: list[Transaction] = field(default_factory=list)
    inserted_into: list[tuple[Bucket, str | None]] = field(default_factory=list)
    last_id: int = 0
    quotas: dict[str, int] = field(default_factory=dict)

    # Lookup.

    def has_anchor(self, bucket: Bucket, tokens: Tokens) -> bool:
        self._say(StoreCall.SWEEP, None, self._expire(self.clock()))
        return any(
            row.origin is Origin.SYSTEM and row.bucket == bucket and row.tokens == tokens for row in self.rows
        )

    def find(self, bucket: Bucket, session: str | None, tokens: Tokens) -> Answer:
        now = self.clock()
        self._say(StoreCall.SWEEP, None, self._expire(now))
        return look(self, self.limits, self.inserted_into, (bucket, session, tokens), now)

    def hit(self, answer: Answer, choice: int, failed_restores: int, cause: TraceRef | None) -> None:
        facts, length, last_used = answer.candidates[choice]
        superseded: list[SnapshotEvent] = []
        for row in self.rows:
            if row.id == facts.id:
                if row.tentative and length == len(row.tokens):
                    row.tentative = False
                    superseded = self._settle(row)
                self.rows.remove(row)
                self.rows.append(row)
                row.last_used = self.clock()
                row.hits += 1
                if length == len(row.tokens):
                    row.kept = False
                    row.proven = row.origin is Origin.SYSTEM
                break
        gap = answer.at - last_used
        event = LookupHit(facts, answer.prompt_tokens, length, gap, failed_restores)
        self._say(StoreCall.LOOKUP, cause, [*superseded, event], at=answer.at)

    def _settle(self, row: Row) -> list[SnapshotEvent]:
        """A guess came true: what it did not do when it came in is done now."""
        if row.session is None or not self.limits.supersede:
            return []
        successor = (row.bucket, row.session, row.origin, row.tokens)
        return list(self._supersede(*successor, payload=row.payload, now=self.clock()))

    def miss(self, answer: Answer, failed_restores: int, cause: TraceRef | None) -> Miss:
        event = LookupMissed(
            answer.reason,
            answer.prompt_tokens,
            answer.common_prefix_tokens,
            failed_restores,
            tenant=answer.tenant,
        )
        self._say(StoreCall.LOOKUP, cause, [event], at=answer.at)
        return answer.reason

    def skip(self, reason: Miss, prompt_tokens: int, tenant: str, cause: TraceRef | None) -> None:
        self._say(StoreCall.LOOKUP, cause, [LookupMissed(reason, prompt_tokens, 0, 0, tenant=tenant)])

    # Insert.

    def insert(
        self,
        bucket: Bucket,
        session: str | None,
        origin: Origin,
        tokens: Tokens,
        *,
        payload: Payload,
        cause: TraceRef | None,
        tentative: bool = False,
    ) -> Rejection | None:
        if origin is Origin.SYSTEM:
            session = None
        reason = self._rejection(tokens, payload, bucket.tenant)
        if reason is None and tentative and self._is_full_with(payload, bucket.tenant):
            reason = Rejection.LOW_MEMORY
        if reason is not None:
            size = len(tokens), payload.nbytes
            self.refuse(reason, origin, session, size=size, tenant=bucket.tenant, cause=cause)
            return reason
        now = self.clock()
        self.last_id += 1
        new = Row(
            self.last_id, bucket, session, origin, tokens, payload, now, now, cause, tentative=tentative
        )
        events: list[SnapshotEvent] = []
        for row in list(self.of(bucket, session)):
            if row.origin is origin and row.tokens == tokens:
                events.append(self._remove(row, Removal.REPLACED, now))
        if self.limits.supersede and session is not None and not tentative:
            events += self._supersede(bucket, session, origin, tokens, payload=payload, now=now)
        if tentative:
            before = self._boundaries_before(new)
            new.guessed_from = before[-1].id if before else None
        self.rows.append(new)
        self.inserted_into.append((bucket, session))
        events.append(SnapshotInserted(new.facts()))
        events += self._expire(now)
        events += self._make_room(new, now)
        self._say(StoreCall.INSERT, cause, events)
        return None

    def _supersede(
        self, bucket: Bucket, session: str, origin: Origin, tokens: Tokens, *, payload: Payload, now: float
    ) -> Iterator[SnapshotEvent]:
        most = self.limits.keep_ancestors
        older = sorted(self.of(bucket, session), key=lambda row: (len(row.tokens), row.id))
        contained = [r for r in older if r.begins(tokens) and payload.can_truncate_to(len(r.tokens))]
        of_its_kind = [
            r for r in older if r.begins(tokens) and r.origin is origin and r not in contained and not r.kept
        ]
        staying = of_its_kind if origin is Origin.BOUNDARY else []
        while len(staying) > most:
            staying = staying[1:]
        for row in older:
            if row in contained or (row in of_its_kind and row not in staying):
                yield self._remove(row, Removal.SUPERSEDED, now)
        for row in staying:
            self.rows.remove(row)
            self.rows.append(row)
            row.last_used = now
            row.kept = True
            row.tentative = False
        gone = [row.id for row in older if row in contained or row in of_its_kind]
        for number in gone:
            for row in [row for row in self.rows if row.tentative and row.guessed_from == number]:
                if not (row.bucket == bucket and row.tokens == tokens and row.origin is origin):
                    yield self._remove(row, Removal.SUPERSEDED, now)
        while len(kept := [row for row in self.of(bucket, session) if row.kept]) > most:
            yield self._remove(kept[0], Removal.SUPERSEDED, now)

    def most(self, tenant: str) -> int:
        """The most bytes that the tenant can ever hold."""
        return min(self.limits.capacity_bytes, self.quotas.get(tenant, self.limits.capacity_bytes))

    def _rejection(self, tokens: Tokens, payload: Payload, tenant: str) -> Rejection | None:
        if not self.limits.enabled:
            return Rejection.DISABLED
        if len(tokens) < self.limits.min_prefix_tokens:
            return Rejection.TOO_SHORT
        if payload.nbytes > self.most(tenant):
            return Rejection.OVERSIZED
        if self.limits.max_arrays is not None and payload.arrays > self.limits.max_arrays:
            return Rejection.OVERSIZED
        return None

    def _is_full_with(self, payload: Payload, tenant: str) -> bool:
        own = sum(row.payload.nbytes for row in self.of_tenant(tenant))
        return (
            (tenant in self.quotas and own + payload.nbytes > self.quotas[tenant])
            or len(self.rows) + 1 > self.limits.max_entries
            or self.nbytes() + payload.nbytes > self.limits.capacity_bytes
            or (
                self.limits.max_arrays is not None and self.arrays() + payload.arrays > self.limits.max_arrays
            )
        )

    def _boundaries_before(self, new: Row) -> list[Row]:
        """The live boundaries that `new` continues, in order of their coming."""
        if new.session is None:
            return []
        return sorted(
            (
                row
                for row in self.of(new.bucket, new.session)
                if row.origin is Origin.BOUNDARY and not row.kept and row.begins(new.tokens)
            ),
            key=lambda row: row.id,
        )

    def _make_room(self, new: Row, now: float) -> Iterator[SnapshotEvent]:
        turn: list[Row] = [new, *self._boundaries_before(new)[-1:]]
        tenant = new.bucket.tenant
        while tenant in self.quotas:
            mine = self.of_tenant(tenant)
            if sum(row.payload.nbytes for row in mine) <= self.quotas[tenant]:
                break
            yield self._evict_one_of(mine, turn, Removal.LRU_BYTES, now)
        while True:
            if self.nbytes() > self.limits.capacity_bytes:
                reason = Removal.LRU_BYTES
            elif len(self.rows) > self.limits.max_entries:
                reason = Removal.LRU_ENTRIES
            elif self.limits.max_arrays is not None and self.arrays() > self.limits.max_arrays:
                reason = Removal.LRU_ARRAYS
            else:
                return
            yield self._evict_one_of(self.leaving(), turn, reason, now)

    def _evict_one_of(self, rows: list[Row], turn: list[Row], reason: Removal, now: float) -> SnapshotEvent:
        new = turn[0]
        others = [row for row in rows if row not in turn]
        spared = [row for row in turn[1:] if row in self.rows]
        victim = next(iter([row for row in others if not row.proven] + spared + others))
        own = new.session is not None and victim in self.of(new.bucket, new.session)
        return self._evict(victim, reason, now, self_eviction=own)

    def refuse(
        self,
        reason: Rejection,
        origin: Origin,
        session: str | None,
        *,
        size: tuple[int, int],
        tenant: str,
        cause: TraceRef | None,
    ) -> None:
        event = SnapshotRejected(reason, origin, session, *size, self.most(tenant), tenant)
        self._say(StoreCall.INSERT, cause, [event])

    # Removal.

    def sweep(self) -> int:
        gone = self._expire(self.clock())
        self._say(StoreCall.SWEEP, None, gone)
        return len(gone)

    def clear(self, tenant: str | None) -> tuple[int, int]:
        return self._clear(self.leaving() if tenant is None else self.of_tenant(tenant))

    def forget_session(self, tenant: str, session: str) -> tuple[int, int]:
        return self._clear([row for row in self.of_tenant(tenant) if row.session == session])

    def _clear(self, rows: list[Row]) -> tuple[int, int]:
        numbers = (len(rows), sum(row.payload.nbytes for row in rows))
        now = self.clock()
        self._say(StoreCall.CLEAR, None, [self._remove(row, Removal.CLEARED, now) for row in rows])
        return numbers

    def shed(self, nbytes: int, cause: TraceRef | None) -> int:
        now = self.clock()
        before = self.nbytes()
        events = self._expire(now)
        while self.rows and before - self.nbytes() < nbytes:
            events.append(self._evict(self.leaving()[0], Removal.PRESSURE, now))
        self._say(StoreCall.SHED, cause, events)
        return before - self.nbytes()

    def _expire(self, now: float) -> list[SnapshotEvent]:
        ttl = self.limits.ttl_seconds
        dead = [row for row in self.leaving() if ttl is not None and now - row.last_used >= ttl]
        return [self._remove(row, Removal.TTL, now) for row in dead]

    def _evict(
        self, row: Row, reason: Removal, now: float, *, self_eviction: bool = False
    ) -> SnapshotRemoved:
        """A kept ancestor was superseded already: that is why it goes, whoever needs its room."""
        if row.kept:
            return self._remove(row, Removal.SUPERSEDED, now)
        return self._remove(row, reason, now, self_eviction=self_eviction)

    def _remove(
        self, row: Row, reason: Removal, now: float, *, self_eviction: bool = False
    ) -> SnapshotRemoved:
        self.rows.remove(row)
        return SnapshotRemoved(
            row.facts(),
            reason,
            now - row.created,
            now - row.last_used,
            row.hits,
            self_eviction,
            row.inserted_by,
        )

    def _say(
        self,
        call: StoreCall,
        cause: TraceRef | None,
        events: list[SnapshotEvent],
        at: float | None = None,
    ) -> None:
        if events:
            when = self.clock() if at is None else at
            self.transactions.append(
                Transaction(
                    len(self.transactions) + 1,
                    call,
                    cause,
                    when,
                    when,
                    tuple(events),
                    self.occupancy(),
                )
            )
