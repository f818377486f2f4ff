"""The bounded queue in front of the engine."""

import math
import threading

import pytest

from app.errors import RequestError
from app.scheduler.admission import Admission, Ending
from tests.support.jobs import make_job

PATIENCE_SECONDS = 20


def taken(admission):
    """The id of the next job, or None."""
    job = admission.take()
    return job and job.id


def test_jobs_are_taken_in_order_of_arrival():
    """First come, first served."""
    admission = Admission(max_waiting=3, wake=lambda: None)
    for name in "abc":
        admission.offer(make_job([1], id=name))

    assert [job.id for job in iter(admission.take, None)] == ["a", "b", "c"]


def test_a_full_queue_refuses_with_429_and_a_time_to_retry():
    """The bound is exact, and the refusal says when to come back."""
    admission = Admission(max_waiting=1, wake=lambda: None)
    admission.offer(make_job([1], id="a"))

    with pytest.raises(RequestError) as refusal:
        admission.offer(make_job([1], id="b"))

    assert refusal.value.status == 429
    assert refusal.value.retry_after_seconds is not None
    assert 1 <= refusal.value.retry_after_seconds <= 60
    assert len(admission) == 1


def test_retry_after_follows_how_long_jobs_take():
    """Slow jobs make clients wait longer, within a minute."""
    admission = Admission(max_waiting=0, wake=lambda: None)
    for _ in range(100):
        admission.observe(20.0)

    with pytest.raises(RequestError) as refusal:
        admission.offer(make_job([1]))

    assert refusal.value.retry_after_seconds == 20


def test_a_waiting_job_that_is_cancelled_is_withdrawn_and_frees_its_place():
    """A client that leaves the queue makes room at once."""
    admission = Admission(max_waiting=1, wake=lambda: None)
    admission.offer(make_job([1], id="a"))

    admission.end(make_job([1], id="a").id, Ending.CANCELLED)
    admission.offer(make_job([1], id="b"))

    assert [job.id for job in admission.wishes().withdrawn] == ["a"]
    assert taken(admission) == "b"
    assert admission.take() is None


def test_wishes_are_read_once():
    """What has been asked is told one time."""
    admission = Admission(max_waiting=1, wake=lambda: None)
    admission.end(make_job([1], id="x").id, Ending.STOPPED)

    assert admission.wishes().endings == (("x", Ending.STOPPED),)
    assert admission.wishes().endings == ()


def test_a_closed_door_refuses_with_the_reason_given_and_keeps_who_waits():
    """Draining refuses new work only."""
    admission = Admission(max_waiting=5, wake=lambda: None)
    admission.offer(make_job([1], id="a"))
    admission.close(RequestError("draining", status=503))

    with pytest.raises(RequestError, match="draining"):
        admission.offer(make_job([1], id="b"))
    assert taken(admission) == "a"


def test_a_start_waits_for_jobs_that_are_being_prepared_and_no_longer():
    """What is announced joins; the moment nothing is expected any more, or enough wait, the start goes on."""
    admission = Admission(max_waiting=9, wake=lambda: None)
    admission.offer(make_job([1], id="first"))
    preparing, go = threading.Event(), threading.Event()

    def prepare():
        with admission.expecting():
            preparing.set()
            assert go.wait(PATIENCE_SECONDS)
            admission.offer(make_job([1], id="second"))

    thread = threading.Thread(target=prepare)
    thread.start()
    assert preparing.wait(PATIENCE_SECONDS)
    admission.gather(most=1, seconds=PATIENCE_SECONDS)
    admission.gather(most=9, seconds=0)
    alone = len(admission)
    go.set()
    admission.gather(most=9, seconds=PATIENCE_SECONDS)
    thread.join()

    assert (alone, len(admission)) == (1, 2)


def test_it_knows_whether_a_job_is_being_prepared():
    """From the announcement until the last one is offered or given up."""
    admission = Admission(max_waiting=9, wake=lambda: None)

    with admission.expecting():
        with admission.expecting():
            pass
        within = admission.expects_jobs

    assert (within, admission.expects_jobs) == (True, False)


def test_nobody_is_waited_for_who_was_not_announced():
    """A single request starts at once."""
    admission = Admission(max_waiting=9, wake=lambda: None)
    admission.gather(most=9, seconds=PATIENCE_SECONDS)
    admission.offer(make_job([1], id="first"))

    admission.gather(most=9, seconds=math.inf)


def test_a_preparation_that_fails_is_waited_for_no_more():
    """A refused request does not hold up the others."""
    admission = Admission(max_waiting=9, wake=lambda: None)
    admission.offer(make_job([1], id="first"))
    with pytest.raises(ValueError, match="refused"), admission.expecting():
        raise ValueError("refused")

    admission.gather(most=9, seconds=math.inf)


def test_every_change_wakes_the_engine():
    """An idle engine learns of work, of cancels, of what will not come after all, and of the end."""
    calls = []
    admission = Admission(max_waiting=5, wake=lambda: calls.append(1))

    admission.offer(make_job([1], id="a"))
    admission.end(make_job([1], id="a").id, Ending.CANCELLED)
    with admission.expecting():
        pass
    admission.close(RequestError("no", status=503))

    assert len(calls) == 4
