"""How much the store may hold and what it may do. Plain values, checked once when they are made."""

import math
from dataclasses import dataclass

from app.errors import ConfigurationError
from app.vocabulary import Rejection, Removal

SWITCH_OFF = "to keep no snapshots, switch the store off with snapshots.enabled = false"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The store's limits; they never change while it lives.

    Args:
        capacity_bytes: bytes of all entries together, at least 1.
        max_entries: number of entries, at least 1.
        ttl_seconds: an entry unused for this long is dead; None keeps it until room is needed.
        min_prefix_tokens: shorter states are neither stored nor reused, at least 1.
        max_arrays: device arrays of all entries together, at least 1; None sets no such limit.
        enabled: False makes a store that refuses every insert and misses every lookup.
        supersede: whether a session's longer entry removes those it can stand in for.
        keep_ancestors: how many superseded boundaries a session keeps while there is room, at least 0.

    Raises:
        ConfigurationError: a value is out of its range.
    """

    capacity_bytes: int
    max_entries: int
    ttl_seconds: float | None
    min_prefix_tokens: int
    max_arrays: int | None = None
    enabled: bool = True
    supersede: bool = True
    keep_ancestors: int = 0

    def __post_init__(self) -> None:
        _at_least_one("capacity_bytes", self.capacity_bytes, "byte", SWITCH_OFF)
        _at_least_one("max_entries", self.max_entries, "entry", SWITCH_OFF)
        _at_least_one(
            "min_prefix_tokens", self.min_prefix_tokens, "token", "a state of no tokens saves nothing"
        )
        if self.max_arrays is not None:
            _at_least_one(
                "max_arrays", self.max_arrays, "array", f"None sets no limit on arrays; {SWITCH_OFF}"
            )
        if self.keep_ancestors < 0:
            raise ConfigurationError(
                f"snapshots.keep_ancestors must be at least 0, got {self.keep_ancestors}; 0 keeps none"
            )
        # The comparison is written so that NaN fails it; an infinite lifetime has its own word.
        if self.ttl_seconds is not None and not 0 < self.ttl_seconds < math.inf:
            raise ConfigurationError(
                f"snapshots.ttl_seconds must be finite and above 0 seconds, got {self.ttl_seconds}; "
                f"None keeps entries until room is needed; {SWITCH_OFF}"
            )

    def rejection(self, tokens: int, nbytes: int, arrays: int) -> Rejection | None:
        """Why a snapshot may not be stored at all, the first reason that holds; None: it fits alone."""
        if not self.enabled:
            return Rejection.DISABLED
        if tokens < self.min_prefix_tokens:
            return Rejection.TOO_SHORT
        if self.exceeded(1, nbytes, arrays) is not None:
            return Rejection.OVERSIZED
        return None

    def exceeded(self, entries: int, nbytes: int, arrays: int) -> Removal | None:
        """The first limit that such a store exceeds, as the reason of the removals that mend it."""
        if nbytes > self.capacity_bytes:
            return Removal.LRU_BYTES
        if entries > self.max_entries:
            return Removal.LRU_ENTRIES
        if self.max_arrays is not None and arrays > self.max_arrays:
            return Removal.LRU_ARRAYS
        return None

    def expired(self, idle_seconds: float) -> bool:
        """Whether an entry unused for so long is dead; half-open, so that exactly the time to live is."""
        return self.ttl_seconds is not None and idle_seconds >= self.ttl_seconds


def _at_least_one(field: str, value: int, unit: str, remedy: str) -> None:
    if value < 1:
        raise ConfigurationError(f"snapshots.{field} must be at least 1 {unit}, got {value}; {remedy}")
