"""Jobs that their client or their text ends: what is freed at once, and what of their work is kept."""

import pytest

from app.scheduler.admission import Ending
from app.vocabulary import FinishReason, Origin
from tests.support.hash_chain import HashChainDecoder, reply_to
from tests.support.jobs import make_job
from tests.support.serving_room import ServingRoom


def test_a_cancelled_job_leaves_the_decoder_within_one_step():
    """Nothing more is said to it, and its place is free."""
    room = ServingRoom()
    job = make_job(range(10), max_tokens=1000)
    room.admission.offer(job)
    for _ in range(5):
        room.step()
    said = len(room.deltas[job.id])

    room.admission.end(job.id, Ending.CANCELLED)
    room.step()

    assert room.decoder.rows == {}
    assert len(room.deltas[job.id]) == said
    assert room.ended() == {job.id: FinishReason.CANCELLED}


def test_what_a_cancelled_job_computed_serves_its_retry():
    """Where states can be cut back, a client that comes back does not pay twice."""
    room = ServingRoom(HashChainDecoder(truncatable=True))
    job = make_job(range(100), id="one")
    room.admission.offer(job)
    for _ in range(3):
        room.step()
    room.admission.end(job.id, Ending.CANCELLED)
    room.step()
    retry = make_job(range(100), id="two")

    room.run(retry)

    assert room.started(retry).cached_tokens == 48
    assert room.reply(retry) == reply_to(range(100), 4)


def test_a_job_cancelled_while_it_waits_never_starts():
    """The queue gives it up without touching the decoder."""
    room = ServingRoom(max_running=1)
    waiting = make_job(range(10), id="waiting")
    room.admission.offer(make_job(range(10), id="running", max_tokens=50))
    room.admission.offer(waiting)
    room.step()

    room.admission.end(waiting.id, Ending.CANCELLED)
    room.run()

    assert room.ended()[waiting.id] is FinishReason.CANCELLED
    assert room.deltas[waiting.id] == []


def test_a_job_ended_by_a_stop_string_counts_as_complete_and_its_state_is_kept():
    """The text side ends the row; what was computed stays useful."""
    room = ServingRoom(HashChainDecoder(truncatable=False))
    job = make_job(range(10), max_tokens=1000)
    room.admission.offer(job)
    for _ in range(4):
        room.step()

    room.admission.end(job.id, Ending.STOPPED)
    room.step()

    assert room.ended() == {job.id: FinishReason.STOP}
    assert room.tally.read().inserts[Origin.COMPLETION] == 1
    assert room.decoder.rows == {}


@pytest.mark.parametrize(
    ("how", "reason"), [(Ending.STOPPED, FinishReason.STOP), (Ending.CANCELLED, FinishReason.CANCELLED)]
)
def test_a_job_that_ends_before_its_prefill_leaves_nothing(how, reason):
    """It has a place but no state yet, as another prompt is computed first, which goes on undisturbed."""
    room = ServingRoom(HashChainDecoder(truncatable=True, prefill_rows=1))
    first, second = make_job(range(40), id="first"), make_job(range(100, 140), id="second")
    room.admission.offer(first)
    room.admission.offer(second)
    room.step()
    assert set(room.decoder.rows) == {first.id, second.id}

    room.admission.end(second.id, how)
    retry = make_job(range(100, 140), id="retry")
    room.run(retry)

    assert room.ended()[second.id] is reason
    assert room.reply(first) == reply_to(range(40), 4)
    assert room.started(retry).cached_tokens == 0
