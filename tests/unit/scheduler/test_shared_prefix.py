"""Two requests that share an uncached prefix do not both compute it."""

from app.scheduler.admission import Ending
from app.scheduler.job import Boundary
from app.scheduler.shared_prefix import UnderWay, promise_of_snapshot
from app.snapshots.entry import Bucket
from app.snapshots.limits import Limits
from app.vocabulary import FinishReason, Origin
from tests.support.hash_chain import HashChainDecoder, reply_to
from tests.support.jobs import make_job
from tests.support.serving_room import ServingRoom

HISTORY = range(100)


def together(room, *jobs):
    """Offer all, then run; tokens computed."""
    before = room.decoder.computed_tokens
    room.run(*jobs)
    return room.decoder.computed_tokens - before


def test_the_second_request_waits_for_the_firsts_snapshot():
    """Same session, same history: the prefix is computed once, and both replies are right."""
    room = ServingRoom(HashChainDecoder(truncatable=False))
    first = make_job([*HISTORY, 900], id="first", boundary=100)
    second = make_job([*HISTORY, 901, 902], id="second", boundary=100)

    computed = together(room, first, second)

    assert computed == 101 + 2
    assert room.started(second).cached_tokens == 100
    assert room.reply(first) == reply_to(first.tokens, 4)
    assert room.reply(second) == reply_to(second.tokens, 4)


def test_others_pass_a_request_that_waits():
    """It keeps its place and holds nobody up."""
    room = ServingRoom(HashChainDecoder(truncatable=False))
    first = make_job([*HISTORY, 900], id="first", boundary=100)
    second = make_job([*HISTORY, 901], id="second", boundary=100)
    other = make_job([7, 8, 9], id="other", session="b")
    for job in (first, second, other):
        room.admission.offer(job)

    room.step()

    assert set(room.decoder.rows) == {first.id, other.id}
    assert len(room.admission) == 1


def test_a_short_shared_prefix_is_not_worth_waiting_for():
    """Below the threshold both start at once."""
    room = ServingRoom(HashChainDecoder(truncatable=False), shared_prefix_tokens=101)
    jobs = [make_job([*HISTORY, 900 + i], id=f"j{i}", boundary=100) for i in range(2)]

    assert together(room, *jobs) == 202


def test_what_the_store_gives_already_does_not_count():
    """Only the tokens that waiting saves do."""
    room = ServingRoom(HashChainDecoder(truncatable=False))
    room.run(make_job([*range(90), 900], id="earlier", boundary=90))
    jobs = [make_job([*HISTORY, 900 + i], id=f"j{i}", boundary=100) for i in range(2)]
    for job in jobs:
        room.admission.offer(job)

    room.step()

    assert len(room.decoder.rows) == 2


def test_a_request_does_not_wait_for_one_that_is_gone():
    """The first is cancelled before its snapshot: the second computes for itself."""
    room = ServingRoom(HashChainDecoder(truncatable=False))
    first = make_job([*HISTORY, 900], id="first", boundary=100)
    second = make_job([*HISTORY, 901], id="second", boundary=100)
    room.admission.offer(first)
    room.admission.offer(second)
    room.step()

    room.admission.end(first.id, Ending.CANCELLED)
    room.run()

    assert room.ended() == {first.id: FinishReason.CANCELLED, second.id: FinishReason.LENGTH}
    assert room.reply(second) == reply_to(second.tokens, 4)


def test_only_what_the_request_may_use_is_promised_to_it():
    """Not another session's boundary nor another bucket's; a system anchor is for everybody."""
    job = make_job([*HISTORY, 901], session="mine")
    history, system = Boundary(Origin.BOUNDARY, 100), Boundary(Origin.SYSTEM, 40)

    def promised(ahead, *, of=job, **owner):
        other = make_job([*HISTORY, 900], **owner)
        promise = promise_of_snapshot(of, [UnderWay(other, 0, ahead)])
        return promise.tokens if promise else 0

    assert promised([history], session="mine") == 100
    assert promised([history], session="other") == 0
    assert promised([system, history], session="other") == 40
    assert promised([system, history], session="mine", bucket=Bucket("m", "other")) == 0
    assert promised([history], session="mine", of=make_job(HISTORY, session="mine")) == 0


def test_a_state_that_can_be_cut_back_is_shared_while_it_runs():
    """The second waits for the first one's prefill, not for its reply, and both are right."""
    room = ServingRoom(HashChainDecoder(truncatable=True, chunk=30))
    first = make_job([*HISTORY, 900], id="first", max_tokens=50)
    second = make_job([*HISTORY, 901, 902], id="second")
    for job in (first, second):
        room.admission.offer(job)

    while second.id not in room.decoder.rows:
        room.step()
    replying = len(room.reply(first))
    room.run()

    assert replying <= 1
    assert room.started(second).cached_tokens == 100
    assert room.decoder.computed_tokens == 101 + 2
    assert room.reply(first) == reply_to(first.tokens, 50)
    assert room.reply(second) == reply_to(second.tokens, 4)


def test_a_state_of_another_session_is_not_shared():
    """However alike the prompts are."""
    room = ServingRoom(HashChainDecoder(truncatable=True))
    jobs = [make_job([*HISTORY, 900 + i], id=f"j{i}", session=f"s{i}") for i in range(2)]

    assert together(room, *jobs) == 202


def test_without_a_store_nobody_waits():
    """There is nothing to be had from another request then."""
    limits = Limits(capacity_bytes=1, max_entries=1, ttl_seconds=None, min_prefix_tokens=1, enabled=False)
    room = ServingRoom(HashChainDecoder(truncatable=True), limits=limits)
    for i in range(2):
        room.admission.offer(make_job([*HISTORY, 900 + i], id=f"j{i}"))

    room.step()

    assert len(room.decoder.rows) == 2
