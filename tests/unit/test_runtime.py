"""The engine as the HTTP side sees it, through all of its life."""

import asyncio
import threading
from typing import Any, cast

import pytest

from app.api import ports
from app.errors import ModelError, RequestError
from app.progress import Step
from app.runtime import Milestones, Runtime, ServingEngine
from app.scheduler.worker import Phase, Worker
from app.vocabulary import Removal
from tests.support.jobs import make_job
from tests.support.serving_room import ServingRoom

STALL_SECONDS = 60.0


class Loaded:
    """What the engine thread has made."""

    def __init__(self, room):
        self.model = cast("ports.ChatModel", object())
        self.store = room.store
        self.step = Step("loading the weights", 3, 8)


class House:
    """A serving engine over a worker that has not been started; its phase is set by hand."""

    def __init__(self):
        self.room = ServingRoom(max_waiting=1)
        self.worker = Worker(
            build=lambda: self.room.scheduler,
            close=lambda: None,
            admission=self.room.admission,
            wake=threading.Event(),
            on_change=lambda _phase: None,
            clock=self.room.clock,
        )
        self.engine = ServingEngine(
            self.room.admission,
            self.room.warmups,
            self.worker,
            Loaded(self.room),
            stall_seconds=STALL_SECONDS,
        )

    def enter(self, phase, failure=None):
        self.worker._phase = phase
        self.worker._failure = failure
        self.worker._scheduler = self.room.scheduler


@pytest.mark.parametrize(
    ("phase", "seen"),
    [
        (Phase.LOADING, ports.Phase.LOADING),
        (Phase.READY, ports.Phase.READY),
        (Phase.FAILED, ports.Phase.FAILED),
        (Phase.STOPPED, ports.Phase.FAILED),
    ],
)
def test_the_workers_phase_is_what_probes_see(phase, seen):
    """Every phase has a name for supervisors, and a reason unless all is well."""
    house = House()
    house.enter(phase, ModelError("no such model"))

    health = house.engine.health()

    assert health.phase is seen
    assert bool(health.reason) is (seen is not ports.Phase.READY)


def test_how_far_the_load_is_can_be_asked_only_while_it_lasts():
    """The step and its share in percent; once the model is loaded there is nothing to tell."""
    house = House()

    assert house.engine.health().progress == ports.Progress("loading the weights", 37)
    house.enter(Phase.READY)
    assert house.engine.health().progress is None


def test_an_engine_that_is_not_ready_takes_no_job():
    """503, and when to ask again."""
    house = House()

    with pytest.raises(RequestError) as refusal:
        house.engine.submit(make_job([1]))

    assert refusal.value.status == 503
    assert refusal.value.retry_after_seconds


def test_a_draining_engine_refuses_new_jobs_and_keeps_the_old():
    """The drain shuts the door, not the house."""
    house = House()
    house.enter(Phase.READY)
    house.engine.submit(make_job([1], id="old"))

    house.engine.drain()

    assert house.engine.health().phase is ports.Phase.DRAINING
    assert house.engine.health().waiting == 1
    with pytest.raises(RequestError):
        house.engine.submit(make_job([1], id="new"))


def test_work_without_progress_is_a_stall():
    """Pending work and no step for too long."""
    house = House()
    house.enter(Phase.READY)
    house.engine.submit(make_job([1]))
    house.room.clock.advance(STALL_SECONDS + 1)

    assert house.engine.health().phase is ports.Phase.STALLED


async def test_a_reset_empties_the_store_and_says_what_went():
    """The numbers are those of the very removal."""
    house = House()
    house.enter(Phase.READY)
    house.room.run(make_job(range(20), boundary=10))
    held = house.room.store.occupancy()

    cleared = await house.engine.reset()

    assert (cleared.entries, cleared.nbytes) == (held.entries, held.nbytes)
    assert held.entries > 0
    assert house.room.tally.read().removals[Removal.CLEARED] == held.entries


def test_the_model_is_there_once_it_is_loaded():
    """Not while it is being proved."""
    house = House()
    assert house.engine.model is None

    house.enter(Phase.READY)

    assert house.engine.model is not None


async def test_milestones_come_from_another_thread():
    """The engine thread reaches a phase, and the loop learns of it."""
    milestones = Milestones(asyncio.get_running_loop())
    threading.Thread(target=milestones.reach, args=(Phase.READY,)).start()

    async with asyncio.timeout(10):
        await milestones.wait(Phase.READY)


async def test_a_server_is_ready_before_what_may_come_afterwards_is_done():
    """That has a thread of its own, and is begun no sooner than the model is loaded."""
    milestones = Milestones(asyncio.get_running_loop())
    begun, may_end, on = threading.Event(), threading.Event(), []
    unused: Any = None

    def afterwards():
        on.append(threading.current_thread())
        begun.set()
        may_end.wait(60)

    runtime = Runtime(
        app=unused,
        engine=unused,
        worker=unused,
        milestones=milestones,
        sink=unused,
        requests=unused,
        gate=unused,
        flush=unused,
        after_ready=afterwards,
    )
    waiting = asyncio.ensure_future(runtime.ready())
    await asyncio.sleep(0)
    assert not begun.is_set()

    milestones.reach(Phase.READY)
    async with asyncio.timeout(60):
        await waiting
        await asyncio.to_thread(begun.wait)
    may_end.set()

    assert on != [threading.current_thread()]


def test_a_milestone_after_the_loop_has_gone_is_nobodys_business():
    """The engine may end later than the loop."""
    loop = asyncio.new_event_loop()
    milestones = Milestones(loop)
    loop.close()

    milestones.reach(Phase.STOPPED)
