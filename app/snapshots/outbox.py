"""Numbers transactions and hands them out in that order, whichever thread made them. It knows no entries."""

import threading
from collections import deque

from app.bus import Emit
from app.events import Demand, Occupancy, SnapshotEvent, TraceRef, Transaction
from app.vocabulary import StoreCall


class Outbox:
    """What was committed under a lock, on its way to a listener that must not be called under it.

    Args:
        emit: takes every `Transaction`, in order of `seq`, one at a time.
    """

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._seq = 0
        self._pending: deque[Transaction] = deque()
        self._turn = threading.RLock()
        self._delivering = False

    def post(
        self,
        *,
        call: StoreCall,
        cause: TraceRef | None,
        started: float,
        ended: float,
        events: list[SnapshotEvent],
        occupancy: Occupancy,
        demand: Demand,
    ) -> None:
        """Number and queue a transaction. Only under its owner's lock, or two could get one number."""
        self._seq += 1
        self._pending.append(
            Transaction(self._seq, call, cause, started, ended, tuple(events), occupancy, demand)
        )

    def deliver(self) -> None:
        """Emit what is queued; on return all that was posted before the call has been heard.

        A listener that makes its own thread come here again finds nothing to do: the delivery it was
        called from goes on with what it posted, so that every listener hears one event before the next.
        """
        with self._turn:
            if self._delivering:
                return
            self._delivering = True
            try:
                while self._pending:
                    self._emit(self._pending.popleft())
            finally:
                self._delivering = False
