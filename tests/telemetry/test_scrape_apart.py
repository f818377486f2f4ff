"""A scrape and the engine do not wait for each other."""

import threading

from prometheus_client import CollectorRegistry

from app.scheduler.worker import Phase, Worker
from app.telemetry.metrics import render
from app.telemetry.scrape import ScrapedSeries, level_readings, store_reading
from tests.support.hash_chain import HashChainDecoder
from tests.support.jobs import make_job
from tests.support.serving_room import ServingRoom
from tests.telemetry.metrics_room import Gauges, parse

PATIENCE_SECONDS = 20


class Held(HashChainDecoder):
    """A decoder whose every step waits until it is let go, as a long prefill does."""

    def __init__(self) -> None:
        super().__init__()
        self.began = threading.Event()
        self.go_on = threading.Event()

    def step(self):
        self.began.set()
        assert self.go_on.wait(PATIENCE_SECONDS)
        return super().step()


class WorkerLevels(Gauges):
    """The levels of a real worker."""

    def __init__(self, room: ServingRoom, worker: Worker) -> None:
        super().__init__()
        self.room, self.worker = room, worker

    def running(self) -> int:
        return self.worker.running

    def waiting(self) -> int:
        return len(self.room.admission)


def test_a_scrape_ends_in_the_midst_of_a_step_and_under_the_stores_lock():
    """With the engine thread inside a step, and the store's lock taken, every number can still be read."""
    decoder = Held()
    room = ServingRoom(decoder, max_running=1)
    wake, loaded = threading.Event(), threading.Event()
    worker = Worker(
        build=lambda: room.scheduler,
        close=decoder.close,
        admission=room.admission,
        wake=wake,
        on_change=lambda phase: loaded.set() if phase is Phase.READY else None,
        clock=room.clock,
    )
    registry = CollectorRegistry()
    registry.register(
        ScrapedSeries(
            [store_reading(room.tally.read), *level_readings(WorkerLevels(room, worker))], drops=[dict]
        )
    )
    worker.start()
    try:
        assert loaded.wait(PATIENCE_SECONDS)
        for name in ("one", "two"):
            room.admission.offer(make_job([1, 2, 3], id=name))
        wake.set()
        assert decoder.began.wait(PATIENCE_SECONDS)
        scraped: list[str] = []
        with room.store._lock:
            scrape = threading.Thread(
                target=lambda: scraped.append(render(registry, "")[0].decode()), daemon=True
            )
            scrape.start()
            scrape.join(PATIENCE_SECONDS)
            assert not scrape.is_alive(), "it waits for the store or for the engine"
        assert not decoder.go_on.is_set()
    finally:
        decoder.go_on.set()
        worker.stop()
        worker.join(PATIENCE_SECONDS)

    levels = {sample.name: sample.value for family in parse(scraped[0]) for sample in family.samples}
    assert levels["samovar_requests_running"] == 1
    assert levels["samovar_requests_waiting"] == 1
