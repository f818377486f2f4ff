"""The one place where store events are counted; `/metrics` and the statistics route both read it."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from app.events import (
    EntryFacts,
    Event,
    LookupHit,
    LookupMissed,
    Occupancy,
    SnapshotEvent,
    SnapshotInserted,
    SnapshotRejected,
    SnapshotRemoved,
    Transaction,
)
from app.snapshots.limits import Limits
from app.vocabulary import Growth, Miss, Origin, Rejection, Removal

Name = TypeVar("Name", bound=str)

HIT = "hit"
"""The lookup outcome that is no `Miss`."""

LRU_REASONS = (Removal.LRU_BYTES, Removal.LRU_ENTRIES, Removal.LRU_ARRAYS)

NOT_ASKED = (Miss.DISABLED, Miss.OPTED_OUT)
"""Outcomes of requests for which no lookup was made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TallyReading:
    """All counts since the start, and the occupancy they add up to: inserts - removals = entries.

    Every member of each enum is a key from the start. `lookups` is keyed by `hit` or the `Miss` value.
    `lookup_tokens`: prompt tokens of the lookups that were made, so neither `disabled` nor `opted_out`;
    `reused_tokens` are those of them that were restored. `ghost_hits`: lookups for which so much more
    capacity would have kept more; each growth includes the smaller ones. `seq`: the last transaction, 0
    before the first.
    """

    seq: int
    inserts: Mapping[Origin, int]
    inserted_bytes: Mapping[Origin, int]
    removals: Mapping[Removal, int]
    removed_bytes: Mapping[Removal, int]
    self_evictions: int
    rejections: Mapping[Rejection, int]
    lookups: Mapping[str, int]
    lookup_tokens: int
    reused_tokens: int
    ghost_hits: Mapping[Growth, int]
    occupancy: Occupancy


class _Counts:
    """Everything that is counted of some of a store's events. Not thread-safe: its owner has the lock."""

    def __init__(self) -> None:
        self._inserts = dict.fromkeys(Origin, 0)
        self._inserted_bytes = dict.fromkeys(Origin, 0)
        self._removals = dict.fromkeys(Removal, 0)
        self._removed_bytes = dict.fromkeys(Removal, 0)
        self._self_evictions = 0
        self._rejections = dict.fromkeys(Rejection, 0)
        self._lookups = dict.fromkeys([HIT, *(miss.value for miss in Miss)], 0)
        self._lookup_tokens = 0
        self._reused_tokens = 0
        self._ghost_hits = dict.fromkeys(Growth, 0)
        self._by_origin = dict.fromkeys(Origin, (0, 0))
        self._arrays = 0

    def occupancy(self) -> Occupancy:
        """What is left of all that came; when it was used is not counted."""
        entries, nbytes = map(sum, zip(*self._by_origin.values(), strict=True))
        return Occupancy(entries, nbytes, self._arrays, dict(self._by_origin))

    def read(self, seq: int, occupancy: Occupancy) -> TallyReading:
        """All counts now, beside what the store holds."""
        return TallyReading(
            seq=seq,
            inserts=dict(self._inserts),
            inserted_bytes=dict(self._inserted_bytes),
            removals=dict(self._removals),
            removed_bytes=dict(self._removed_bytes),
            self_evictions=self._self_evictions,
            rejections=dict(self._rejections),
            lookups=dict(self._lookups),
            lookup_tokens=self._lookup_tokens,
            reused_tokens=self._reused_tokens,
            ghost_hits=dict(self._ghost_hits),
            occupancy=occupancy,
        )

    def count(self, event: SnapshotEvent) -> None:
        """Count one event."""
        match event:
            case SnapshotInserted(entry=entry):
                self._inserts[entry.origin] += 1
                self._inserted_bytes[entry.origin] += entry.nbytes
                self._book(entry, 1)
            case SnapshotRemoved(entry=entry, reason=removal):
                self._removals[removal] += 1
                self._removed_bytes[removal] += entry.nbytes
                self._book(entry, -1)
                self._self_evictions += event.self_eviction
            case SnapshotRejected(reason=rejection):
                self._rejections[rejection] += 1
            case LookupHit(prompt_tokens=prompt_tokens, reused_tokens=reused_tokens):
                self._lookups[HIT] += 1
                self._lookup_tokens += prompt_tokens
                self._reused_tokens += reused_tokens
                self._count_growth(event.growth)
            case LookupMissed(reason=miss, prompt_tokens=prompt_tokens):
                self._lookups[miss.value] += 1
                self._lookup_tokens += 0 if miss in NOT_ASKED else prompt_tokens
                self._count_growth(event.growth)

    def _book(self, entry: EntryFacts, sign: int) -> None:
        entries, nbytes = self._by_origin[entry.origin]
        self._by_origin[entry.origin] = (entries + sign, nbytes + sign * entry.nbytes)
        self._arrays += sign * entry.arrays

    def _count_growth(self, least: Growth | None) -> None:
        growths = list(Growth)
        for growth in growths[growths.index(least) :] if least is not None else ():
            self._ghost_hits[growth] += 1


class Tally:
    """A listener that counts what a store did, for all and for each tenant. Must hear every transaction."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seq = 0
        self._all = _Counts()
        self._tenants: dict[str, _Counts] = {}
        self._occupancy = Occupancy(0, 0, 0, dict.fromkeys(Origin, (0, 0)))

    def __call__(self, event: Event) -> None:
        """Count a `Transaction` as a whole; other events are not the store's."""
        if not isinstance(event, Transaction):
            return
        with self._lock:
            for part in event.events:
                self._all.count(part)
                self._tenants.setdefault(tenant_of(part), _Counts()).count(part)
            self._seq = event.seq
            self._occupancy = event.occupancy

    def read(self, tenant: str | None = None) -> TallyReading:
        """All counts at one instant, or those of one tenant, whose `oldest_used` is not known."""
        with self._lock:
            if tenant is None:
                return self._all.read(self._seq, self._occupancy)
            counts = self._tenants.get(tenant, _Counts())
            return counts.read(self._seq, counts.occupancy())


def tenant_of(event: SnapshotEvent) -> str:
    """Whose snapshot or request it is about."""
    if isinstance(event, SnapshotRejected | LookupMissed):
        return event.tenant
    return event.entry.tenant


def stats_payload(reading: TallyReading, limits: Limits, *, now: float) -> dict[str, object]:
    """The snapshot part of `GET /v1/cache/stats`: flat JSON, sizes in bytes, times in seconds.

    `snapshot_hit_rate` is a fraction, 0.0 without lookups. `snapshot_lookups` leaves out what made none
    (`disabled`, `opted_out`); `snapshot_lookups_by_outcome` has them. `now` is of the store's clock.
    """
    held = reading.occupancy
    hits = reading.lookups[HIT]
    lookups = sum(reading.lookups.values()) - sum(reading.lookups[miss] for miss in NOT_ASKED)
    return {
        "enabled": limits.enabled,
        "snapshot_entries": held.entries,
        "snapshot_bytes": held.nbytes,
        "snapshot_bytes_per_entry": held.nbytes // held.entries if held.entries else 0,
        "snapshot_arrays": held.arrays,
        "snapshot_oldest_age_seconds": held.oldest_age_seconds(now),
        "snapshot_capacity_bytes": limits.capacity_bytes,
        "snapshot_max_entries": limits.max_entries,
        "snapshot_max_arrays": limits.max_arrays,
        "snapshot_ttl_seconds": limits.ttl_seconds,
        "snapshot_min_prefix_tokens": limits.min_prefix_tokens,
        "snapshot_hits": hits,
        "snapshot_lookups": lookups,
        "snapshot_hit_rate": hits / lookups if lookups else 0.0,
        "snapshot_lookup_tokens": reading.lookup_tokens,
        "snapshot_reused_tokens": reading.reused_tokens,
        "snapshot_inserts": sum(reading.inserts.values()),
        "snapshot_evictions_lru": sum(reading.removals[reason] for reason in LRU_REASONS),
        "snapshot_evictions_ttl": reading.removals[Removal.TTL],
        "snapshot_supersedes": reading.removals[Removal.SUPERSEDED],
        "snapshot_replaced": reading.removals[Removal.REPLACED],
        "snapshot_self_evictions": reading.self_evictions,
        "snapshot_ghost_hits_by_capacity": _by_name(reading.ghost_hits),
        "snapshot_rejections_oversized": reading.rejections[Rejection.OVERSIZED],
        "snapshot_removals_by_reason": _by_name(reading.removals),
        "snapshot_removed_bytes_by_reason": _by_name(reading.removed_bytes),
        "snapshot_inserts_by_origin": _by_name(reading.inserts),
        "snapshot_rejections_by_reason": _by_name(reading.rejections),
        "snapshot_lookups_by_outcome": _by_name(reading.lookups),
        "snapshot_entries_by_origin": {
            origin.value: entries for origin, (entries, _) in held.by_origin.items()
        },
        "snapshot_bytes_by_origin": {origin.value: nbytes for origin, (_, nbytes) in held.by_origin.items()},
    }


def tenant_payload(reading: TallyReading, limits: Limits, *, quota: int | None) -> dict[str, object]:
    """What `GET /v1/cache/stats` says to one tenant: its own numbers, and the limits it is held to.

    `snapshot_capacity_bytes` is the least of the store's capacity and the tenant's quota.
    """
    payload = stats_payload(reading, limits, now=0.0)
    # When what it holds was last used is not counted by tenant.
    del payload["snapshot_oldest_age_seconds"]
    if quota is not None:
        payload["snapshot_capacity_bytes"] = min(limits.capacity_bytes, quota)
    return payload


def _by_name(counts: Mapping[Name, int]) -> dict[str, int]:
    return {str(name): count for name, count in counts.items()}
