"""The engine thread: it loads, serves, and always gives everyone a last word."""

import threading

import pytest

from app.clock import monotonic
from app.errors import ModelError, RequestError
from app.scheduler.worker import Phase, Worker
from tests.support.hash_chain import HashChainDecoder, reply_to
from tests.support.jobs import make_job
from tests.support.serving_room import ServingRoom

PATIENCE_SECONDS = 20


class Theatre:
    """A worker over a serving room, with its phases as events to wait for."""

    def __init__(self, room: ServingRoom, *, load=lambda: None) -> None:
        self.room = room
        self.wake = threading.Event()
        self.reached = {phase: threading.Event() for phase in Phase}
        self.threads: list[str] = []

        def build():
            self.threads.append(threading.current_thread().name)
            load()
            return room.scheduler

        def close():
            self.threads.append(threading.current_thread().name)
            room.decoder.close()

        self.worker = Worker(
            build=build,
            close=close,
            admission=room.admission,
            wake=self.wake,
            on_change=lambda phase: self.reached[phase].set(),
            clock=room.clock,
        )

    def offer(self, job):
        self.room.admission.offer(job)
        self.wake.set()

    def wait(self, phase):
        assert self.reached[phase].wait(PATIENCE_SECONDS), f"never {phase}"


def wait_for(condition):
    """Wait for another thread to make `condition` true."""
    deadline = monotonic() + PATIENCE_SECONDS
    pause = threading.Event()
    while not condition():
        assert monotonic() < deadline, "it never came"
        pause.wait(0.002)


def test_it_serves_on_its_own_thread_and_closes_there():
    """Load, serve and release happen on one thread, the engine's."""
    theatre = Theatre(ServingRoom())
    job = make_job(range(20))

    theatre.worker.start()
    theatre.wait(Phase.READY)
    theatre.offer(job)
    wait_for(lambda: theatre.room.last_words(job))
    theatre.worker.stop()

    assert theatre.worker.join(PATIENCE_SECONDS)
    assert theatre.room.reply(job) == reply_to(range(20), 4)
    assert theatre.threads == ["engine", "engine"]
    assert theatre.room.decoder.closed
    assert theatre.worker.phase is Phase.STOPPED


def test_a_model_that_cannot_be_loaded_is_the_end_and_the_reason_is_kept():
    """A failed load fails the worker; new jobs are refused with 503."""

    def load():
        raise ModelError("there is no such model")

    theatre = Theatre(ServingRoom(), load=load)
    theatre.worker.start()
    theatre.wait(Phase.FAILED)

    assert theatre.worker.join(PATIENCE_SECONDS)
    assert str(theatre.worker.failure) == "there is no such model"
    with pytest.raises(RequestError) as refusal:
        theatre.room.admission.offer(make_job([1]))
    assert refusal.value.status == 503


def test_stopping_gives_running_jobs_their_last_word():
    """Nobody waits for an engine that has gone."""
    theatre = Theatre(ServingRoom(max_running=1))
    running, waiting = make_job([1, 2], id="r", max_tokens=10**9), make_job([3], id="w")
    theatre.worker.start()
    theatre.offer(running)
    wait_for(lambda: theatre.room.reply(running))
    theatre.offer(waiting)
    theatre.worker.stop()

    assert theatre.worker.join(PATIENCE_SECONDS)
    assert len(theatre.room.last_words(running)) == 1
    assert len(theatre.room.last_words(waiting)) == 1


def test_an_engine_that_cannot_even_rebuild_fails_everyone_and_says_so():
    """What the scheduler itself raises ends the worker in phase FAILED."""

    class Beyond(HashChainDecoder):
        def rebuild(self):
            raise RuntimeError("nothing works any more")

    theatre = Theatre(ServingRoom(Beyond(raise_at={3}), max_running=1))
    jobs = [make_job(range(60), id="a"), make_job(range(60), id="b")]
    for job in jobs:
        theatre.room.admission.offer(job)
    theatre.worker.start()
    theatre.wait(Phase.FAILED)

    assert theatre.worker.join(PATIENCE_SECONDS)
    assert [len(theatre.room.last_words(job)) for job in jobs] == [1, 1]
    assert "nothing works" in str(theatre.worker.failure)


def test_a_stall_is_pending_work_without_a_step():
    """Idle is no stall; a step that does not come back is one."""
    inside, leave = threading.Event(), threading.Event()

    class Stuck(HashChainDecoder):
        def step(self):
            inside.set()
            assert leave.wait(PATIENCE_SECONDS)
            return super().step()

    theatre = Theatre(ServingRoom(Stuck()))
    theatre.worker.start()
    theatre.wait(Phase.READY)
    assert not theatre.worker.is_stalled(0.0)
    theatre.offer(make_job(range(5)))
    assert inside.wait(PATIENCE_SECONDS)

    assert theatre.worker.running == 1
    assert not theatre.worker.is_stalled(60)
    theatre.room.clock.advance(61)
    assert theatre.worker.is_stalled(60)
    leave.set()
    theatre.worker.stop()
    assert theatre.worker.join(PATIENCE_SECONDS)


def test_an_idle_engine_sweeps_without_being_asked():
    """Expired entries go on the idle tick."""
    swept = threading.Event()

    class Tidy(HashChainDecoder):
        def idle(self):
            swept.set()

    theatre = Theatre(ServingRoom(Tidy()))

    theatre.worker.start()

    assert swept.wait(PATIENCE_SECONDS)
    theatre.worker.stop()
    assert theatre.worker.join(PATIENCE_SECONDS)
