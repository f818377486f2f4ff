"""What snapshots weigh, for every kind of state: what is reported is held, what is dropped is given back."""

import gc
import threading
from typing import Any

import mlx.core as mx
import pytest

from app.events import SnapshotRemoved, Transaction
from app.scheduler.admission import Admission
from app.scheduler.worker import Phase, Worker
from app.vocabulary import Removal
from tests.families.laws import FIRST, SECOND, load_family, replies
from tests.support.families import FAMILIES

LONG = f"{FIRST} {SECOND} " * 3
SNAPSHOTS = 4

SHARED_BYTES = 16384
"""MLX leaves an array where it is if that wastes no more than this much of its buffer."""


def settled() -> int:
    """Bytes of live arrays, with nothing left over of what ran before."""
    gc.collect()
    mx.clear_cache()
    return mx.get_active_memory()


@pytest.mark.parametrize("name", FAMILIES)
def test_bytes_reported_are_bytes_held(family, name):
    """Between an engine with states in its store and the same engine without lies what the store reports."""
    room = family(name).room()
    jobs = [family(name).ask([f"{i} {LONG}"], session=str(i), max_tokens=2) for i in range(SNAPSHOTS)]
    replies(room, *jobs)
    room.decoder.rebuild()
    stored = room.store.occupancy()
    held = settled()

    room.store.clear()

    assert stored.entries == SNAPSHOTS
    assert stored.nbytes > 0
    slack = SHARED_BYTES * stored.arrays
    assert 0.99 * stored.nbytes <= held - settled() <= 1.01 * stored.nbytes + slack


@pytest.mark.parametrize("name", ["llama", "qwen3_next", "falcon_h1", "llama4"])
def test_the_number_of_arrays_is_a_limit_of_its_own(family, name):
    """A store that may hold two states' arrays keeps the two newest, and says which limit it was."""
    model = family(name)
    probe = model.room()
    replies(probe, model.ask([FIRST]))
    of_one = probe.store.occupancy().arrays
    room = model.room(max_arrays=2 * of_one)
    jobs = [model.ask([FIRST], session=session) for session in "abc"]
    for job in jobs:
        replies(room, job)

    removed = [
        event.reason
        for transaction in room.events
        if isinstance(transaction, Transaction)
        for event in transaction.events
        if isinstance(event, SnapshotRemoved)
    ]
    assert of_one > 0
    assert room.store.occupancy().arrays == 2 * of_one
    assert removed == [Removal.LRU_ARRAYS]


def test_a_cleared_store_gives_its_memory_back_while_the_engine_is_idle(tmp_path, monkeypatch):
    """Cleared from another thread: within an idle tick the arrays are gone, and their buffers too."""
    rooms: list[Any] = []
    ready, tidied = threading.Event(), threading.Event()
    levels: list[tuple[int, int]] = []

    def build() -> Any:
        family = load_family("llama", tmp_path)
        room = family.room()
        replies(room, *(family.ask([f"{i} {LONG}"], session=str(i)) for i in range(SNAPSHOTS)))
        idle = room.scheduler.idle

        def watched() -> None:
            idle()
            if not room.store.occupancy().entries:
                levels.append((mx.get_active_memory(), mx.get_cache_memory()))
                tidied.set()

        monkeypatch.setattr(room.scheduler, "idle", watched)
        rooms.append(room)
        return room.scheduler

    def close() -> None:
        rooms[0].decoder.close()

    def on_change(phase: Phase) -> None:
        if phase is Phase.READY:
            ready.set()

    wake = threading.Event()
    worker = Worker(
        build=build,
        close=close,
        admission=Admission(max_waiting=1, wake=wake.set),
        wake=wake,
        on_change=on_change,
        clock=lambda: 0.0,
    )
    worker.start()
    assert ready.wait(60)
    with_states = mx.get_active_memory()
    stored = rooms[0].store.clear().nbytes
    assert tidied.wait(30)
    worker.stop()
    assert worker.join(30)
    (active, cache), *_ = levels

    assert stored > 0
    assert with_states - active >= 0.99 * stored
    assert cache == 0
