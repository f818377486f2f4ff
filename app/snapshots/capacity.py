"""The capacity that would be right, as it stands now; a capacity that was left to us follows it.

A listener to the store's transactions. It knows no MLX and no metrics; the arithmetic is in `sizing.py`.
"""

import logging
import threading
from collections import deque
from dataclasses import dataclass
from typing import Any

from app.clock import Clock
from app.events import Event, SnapshotInserted, SnapshotRejected, Transaction
from app.snapshots.sizing import LEAST_ENTRIES, Recommendation, from_demand
from app.snapshots.store import SnapshotStore
from app.vocabulary import Rejection

log = logging.getLogger(__name__)

WINDOW_SECONDS = 86_400.0
"""A day: the busiest hour of yesterday is that of today."""

SLOT_SECONDS = 3_600.0
"""The window moves on by so much at a time."""


@dataclass(slots=True)
class _Slot:
    """The most that was wanted in one stretch of time, and the largest snapshot in it."""

    began: float
    nbytes: int = 0
    sessions: int = 0
    largest_bytes: int = 0


class PeakDemand:
    """The most that was wanted within the window. Not thread-safe: its owner has the lock."""

    def __init__(self) -> None:
        self._slots: deque[_Slot] = deque()

    def hear(self, said: Transaction) -> None:
        """Take in what the store says it would hold, had it room."""
        slot = self._slot(said.ended)
        for event in said.events:
            match event:
                case SnapshotInserted(entry=entry):
                    slot.largest_bytes = max(slot.largest_bytes, entry.nbytes)
                case SnapshotRejected(reason=Rejection.OVERSIZED, nbytes=nbytes):
                    slot.largest_bytes = max(slot.largest_bytes, nbytes)
                case _:
                    pass
        if said.demand.nbytes > slot.nbytes:
            slot.nbytes, slot.sessions = said.demand.nbytes, said.demand.sessions

    def largest_bytes(self, now: float) -> int:
        """The largest snapshot within the window; 0: there was none."""
        return max((slot.largest_bytes for slot in self._within(now)), default=0)

    def recommendation(self, now: float, *, available_bytes: int) -> Recommendation | None:
        """What would have been right at the busiest time; None: no snapshot came within the window."""
        largest_bytes = self.largest_bytes(now)
        if not largest_bytes:
            return None
        busiest = max(self._within(now), key=lambda slot: slot.nbytes)
        return from_demand(
            nbytes=busiest.nbytes,
            sessions=busiest.sessions,
            largest_bytes=largest_bytes,
            available_bytes=available_bytes,
        )

    def _slot(self, now: float) -> _Slot:
        if not self._slots or now - self._slots[-1].began >= SLOT_SECONDS:
            self._slots.append(_Slot(now))
            while now - self._slots[0].began > WINDOW_SECONDS:
                self._slots.popleft()
        return self._slots[-1]

    def _within(self, now: float) -> list[_Slot]:
        return [slot for slot in self._slots if now - slot.began <= WINDOW_SECONDS]


@dataclass(frozen=True, slots=True)
class _Served:
    """What is known once the model is loaded."""

    store: SnapshotStore[Any]
    start: Recommendation
    automatic: bool


class Capacity:
    """Hears what the store does; read from anywhere.

    Args:
        clock: monotonic seconds, the store's.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._peak = PeakDemand()
        self._served: _Served | None = None
        self._warned_bytes = 0

    def open(
        self,
        store: SnapshotStore[Any],
        *,
        start: Recommendation,
        automatic: bool,
    ) -> None:
        """The model is loaded.

        Args:
            store: what is recommended for, and grown where `automatic`.
            start: what is right as long as nothing has been measured.
            automatic: whether the capacity was left to us.
        """
        self._served = _Served(store, start, automatic)
        self._warn_below_two(start.bytes_per_session, store.limits.capacity_bytes)

    def __call__(self, event: Event) -> None:
        """Take in a transaction of the store; let its capacity follow, where that is left to us."""
        served = self._served
        if not isinstance(event, Transaction) or served is None:
            return
        with self._lock:
            self._peak.hear(event)
            largest_bytes = self._peak.largest_bytes(event.ended)
        right = self.recommendation()
        if served.automatic and right is not None:
            served.store.grow(right.capacity_bytes)
        self._warn_below_two(largest_bytes, served.store.limits.capacity_bytes)

    @property
    def automatic(self) -> bool:
        """Whether the capacity follows the recommendation."""
        return self._served is not None and self._served.automatic

    def recommendation(self) -> Recommendation | None:
        """What would be right now; None until the model is loaded."""
        served = self._served
        if served is None:
            return None
        with self._lock:
            measured = self._peak.recommendation(self._clock(), available_bytes=served.start.available_bytes)
        return measured or served.start

    def payload(self) -> dict[str, object]:
        """The recommendation's part of `GET /v1/cache/stats`: bytes, and what they are made of."""
        right = self.recommendation()
        if right is None:
            return {}
        return {
            "snapshot_capacity_automatic": self.automatic,
            "snapshot_recommended_bytes": right.capacity_bytes,
            "snapshot_available_bytes": right.available_bytes,
            "snapshot_recommendation": {
                "basis": right.basis.value,
                "sessions": right.sessions,
                "bytes_per_session": right.bytes_per_session,
                "wanted_bytes": right.wanted_bytes,
                "fits": right.fits,
            },
        }

    def _warn_below_two(self, entry_bytes: int, capacity_bytes: int) -> None:
        if LEAST_ENTRIES * entry_bytes > max(capacity_bytes, LEAST_ENTRIES * self._warned_bytes):
            self._warned_bytes = entry_bytes
            log.warning(
                "the snapshot capacity of %d bytes does not hold two snapshots of %d bytes; "
                "conversations will push each other out, see docs/sizing.md",
                capacity_bytes,
                entry_bytes,
            )
