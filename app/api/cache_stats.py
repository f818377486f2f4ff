"""What `GET /v1/cache/stats` answers, for the schema. Counts nothing: others do."""

from msgspec import UNSET, Struct, UnsetType

from app.snapshots.sizing import Basis
from app.vocabulary import Growth, Origin, Rejection, Removal


class RecommendedCapacity(Struct, frozen=True, kw_only=True):
    """What the recommended capacity is made of.

    `basis` is what it follows from: what was stored, or before that the model. `sessions` conversations of
    `bytes_per_session` would need `wanted_bytes`; `fits` is whether the machine has them.
    """

    basis: Basis
    sessions: int
    bytes_per_session: int
    wanted_bytes: int
    fits: bool


class CacheStats(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the snapshot store holds and did since the start, and its limits.

    Sizes are in bytes, times in seconds.
    A tenant's own numbers name it in `tenant`. What belongs to the whole store is absent from them: the age
    of the oldest use, the recommended capacity, and where the limits were set (`snapshot_limits_from`).
    `snapshot_hit_rate` is a fraction, 0 without lookups; lookups that were never made (`disabled`,
    `opted_out`) count in `snapshot_lookups_by_outcome` alone.
    """

    tenant: str | UnsetType = UNSET
    enabled: bool
    snapshot_entries: int
    snapshot_bytes: int
    snapshot_bytes_per_entry: int
    snapshot_arrays: int
    snapshot_oldest_age_seconds: float | UnsetType = UNSET
    snapshot_capacity_bytes: int
    snapshot_max_entries: int
    snapshot_max_arrays: int | None
    snapshot_ttl_seconds: float | None
    snapshot_min_prefix_tokens: int
    snapshot_hits: int
    snapshot_lookups: int
    snapshot_hit_rate: float
    snapshot_lookup_tokens: int
    snapshot_reused_tokens: int
    snapshot_inserts: int
    snapshot_evictions_lru: int
    snapshot_evictions_ttl: int
    snapshot_supersedes: int
    snapshot_replaced: int
    snapshot_self_evictions: int
    snapshot_ghost_hits_by_capacity: dict[Growth, int]
    snapshot_rejections_oversized: int
    snapshot_removals_by_reason: dict[Removal, int]
    snapshot_removed_bytes_by_reason: dict[Removal, int]
    snapshot_inserts_by_origin: dict[Origin, int]
    snapshot_rejections_by_reason: dict[Rejection, int]
    snapshot_lookups_by_outcome: dict[str, int]
    snapshot_entries_by_origin: dict[Origin, int]
    snapshot_bytes_by_origin: dict[Origin, int]
    snapshot_capacity_automatic: bool | UnsetType = UNSET
    snapshot_recommended_bytes: int | UnsetType = UNSET
    snapshot_available_bytes: int | UnsetType = UNSET
    snapshot_recommendation: RecommendedCapacity | UnsetType = UNSET
    snapshot_limits_from: dict[str, str] | UnsetType = UNSET
