"""What the end of a generation says of the state it left behind."""

import pytest

from app.events import GenerationEnded
from app.scheduler.admission import Ending
from app.scheduler.job import JobId
from app.snapshots.limits import Limits
from app.vocabulary import FinishReason
from tests.support.hash_chain import HashChainDecoder
from tests.support.jobs import make_job
from tests.support.serving_room import ServingRoom


def told(room: ServingRoom) -> list[tuple[str, int, int]]:
    """(job, cached tokens, stored tokens) of each end, in order."""
    return [
        (event.job_id, event.cached_tokens, event.stored_tokens)
        for event in room.events
        if isinstance(event, GenerationEnded)
    ]


def test_a_boundary_is_what_a_turn_stored():
    """On whole-state models: the history, and on the next turn only what is new of it."""
    room = ServingRoom(HashChainDecoder(truncatable=False), store_completions=False)
    room.run(make_job([*range(50), 900, 901], id="one", boundary=50))
    room.run(make_job([*range(50), *range(200, 220), 900, 901], id="two", boundary=70))
    assert told(room) == [("one", 0, 50), ("two", 50, 20)]


def test_a_completion_stores_the_whole_prompt():
    """Where states can be cut back: all of the prompt, though not the reply, which is no input."""
    room = ServingRoom(HashChainDecoder(truncatable=True))
    room.run(make_job(range(40), id="one", max_tokens=5))
    assert told(room) == [("one", 0, 40)]


def test_what_the_store_refuses_is_not_told_as_stored():
    """An oversized state and a request that opted out leave nothing."""
    tiny = Limits(capacity_bytes=1, max_entries=10, ttl_seconds=None, min_prefix_tokens=1)
    room = ServingRoom(HashChainDecoder(truncatable=True), limits=tiny)
    room.run(make_job(range(40), id="oversized"))
    room.run(make_job(range(40), id="opted out", use_snapshots=False))
    assert told(room) == [("oversized", 0, 0), ("opted out", 0, 0)]


class Unsealable(HashChainDecoder):
    """A decoder that breaks when a state is copied out."""

    def seal(self, job_id):
        raise RuntimeError("out of memory")


@pytest.mark.parametrize("stopped", [True, False], ids=["stop string", "last token"])
def test_every_end_is_told_even_where_keeping_a_state_breaks(stopped):
    """Replies that were complete end as complete, once each; the failure is the rebuild's to tell."""
    room = ServingRoom(Unsealable(truncatable=True))
    jobs = [make_job(range(start, start + 40), id=str(start), max_tokens=3) for start in (0, 100)]
    for job in jobs:
        room.admission.offer(job)
    room.step()
    if stopped:
        for job in jobs:
            room.admission.end(JobId(job.id), Ending.STOPPED)
    while room.step():
        pass
    reasons = room.ended()
    assert reasons.keys() == {job.id for job in jobs}
    complete = FinishReason.STOP if stopped else FinishReason.LENGTH
    assert complete in reasons.values()
