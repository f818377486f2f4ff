"""Many threads, one store: the limits hold, and what is heard is one story."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from app.events import Event, Transaction
from app.snapshots.entry import pack
from app.snapshots.limits import Limits
from app.snapshots.stats import Tally
from app.snapshots.store import SnapshotStore
from app.vocabulary import Origin
from tests.support.snapshots import BUCKET, Block, limits

THREADS, TURNS = 16, 32


def give_way() -> None:
    """Let another thread run now, so that threads meet in the middle of things and not by chance."""
    time.sleep(0)


class Auditor:
    """A listener that checks every transaction against all before it."""

    def __init__(self, bound: Limits) -> None:
        self.faults: list[str] = []
        self.tally = Tally()
        self._bound = bound
        self._inside = threading.Lock()

    def __call__(self, event: Event) -> None:
        assert isinstance(event, Transaction)
        if not self._inside.acquire(blocking=False):
            self.faults.append("two transactions were told at once")
            return
        give_way()
        if event.seq != self.tally.read().seq + 1:
            self.faults.append(f"{event.seq} was told after {self.tally.read().seq}")
        self.tally(event)
        reading, held = self.tally.read(), event.occupancy
        if self._bound.exceeded(held.entries, held.nbytes, held.arrays) is not None:
            self.faults.append(f"a limit is exceeded: {held}")
        if held.entries != sum(reading.inserts.values()) - sum(reading.removals.values()):
            self.faults.append(f"entries do not add up at {event.seq}")
        if held.nbytes != sum(reading.inserted_bytes.values()) - sum(reading.removed_bytes.values()):
            self.faults.append(f"bytes do not add up at {event.seq}")
        self._inside.release()


def converse(store: SnapshotStore[Block], thread: int) -> None:
    """Turns of eight sessions that all threads share, with a reset now and then."""
    for turn in range(1, TURNS + 1):
        session = f"session {(thread + turn) % 8}"
        found = store.find(bucket=BUCKET, session=session, tokens=pack(range(turn % 8 + 2)))
        if found.candidates:
            store.hit(found, found.candidates[0])
        else:
            store.miss(found)
        store.insert(
            bucket=BUCKET,
            session=session,
            origin=Origin.BOUNDARY if turn % 3 else Origin.COMPLETION,
            tokens=pack(range(turn % 8 + 1)),
            payload=Block(nbytes=5 + turn, arrays=turn % 5),
        )
        if turn % 16 == 0:
            store.clear()
            store.shed(50)


def test_sixteen_threads_are_heard_in_one_order_and_within_the_limits() -> None:
    """Whatever threads do at once, the listener hears 1, 2, 3… and the books balance at every step."""
    bound = limits(capacity_bytes=400, max_entries=30, ttl_seconds=0.001, max_arrays=90)
    auditor = Auditor(bound)
    start = threading.Barrier(THREADS)

    def clock() -> float:
        give_way()
        return time.monotonic()

    store: SnapshotStore[Block] = SnapshotStore(bound, clock=clock, emit=auditor)

    def talk(thread: int) -> None:
        start.wait()
        converse(store, thread)

    with ThreadPoolExecutor(THREADS) as pool:
        for done in [pool.submit(talk, thread) for thread in range(THREADS)]:
            done.result()

    assert auditor.faults == []
    reading = auditor.tally.read()
    assert reading.occupancy == store.occupancy()
    assert sum(reading.inserts.values()) == THREADS * TURNS
    assert sum(reading.lookups.values()) == THREADS * TURNS
