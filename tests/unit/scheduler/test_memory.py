"""Requests and snapshots within memory: snapshots give way, then requests wait, and nobody takes more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.events import GenerationEnded, SnapshotRejected, SnapshotRemoved, Transaction
from app.scheduler.core import NO_MEMORY, QUEUE_TIMEOUT
from app.scheduler.memory import LOOK_SECONDS, RELIEF_SECONDS
from app.scheduler.memory_plan import MemoryPlan
from app.vocabulary import FinishReason, Rejection, Removal
from tests.support.hash_chain import HashChainDecoder, reply_to
from tests.support.jobs import make_job
from tests.support.serving_room import ServingRoom

FIXED = 100
"""Bytes of any state, besides one for each token; what the hash chain says its payloads have."""


def plan(states_bytes, *, reply_tokens=1000):
    """Memory with so much room for states, beside weights and headroom."""
    return MemoryPlan(
        limit_bytes=5000 + states_bytes,
        headroom_bytes=2000,
        fixed_bytes=3000,
        state_bytes=lambda tokens: FIXED + tokens,
        reply_tokens=reply_tokens,
    )


def room(states_bytes, *, reply_tokens=1000, **others):
    """A scheduler over a decoder whose states weigh what the plan says."""
    return ServingRoom(
        HashChainDecoder(fixed_bytes=FIXED, truncatable=True),
        plan=plan(states_bytes, reply_tokens=reply_tokens),
        **others,
    )


def prompt(number, length=50):
    return [number * 1000 + position for position in range(length)]


def removals(house):
    return [
        event.reason
        for said in house.events
        if isinstance(said, Transaction)
        for event in said.events
        if isinstance(event, SnapshotRemoved)
    ]


def rejections(house):
    return [
        event.reason
        for said in house.events
        if isinstance(said, Transaction)
        for event in said.events
        if isinstance(event, SnapshotRejected)
    ]


def test_a_request_that_does_not_fit_beside_the_others_waits_for_them():
    """It is not refused, and it starts once one of them has ended."""
    house = room(400)
    first, second, third = (
        make_job(prompt(number), id=str(number), session=str(number), max_tokens=20) for number in range(3)
    )
    for job in (first, second, third):
        house.admission.offer(job)
    most = 0
    while house.step():
        most = max(most, house.scheduler.running)

    assert most == 2
    assert [house.reply(job) for job in (first, second, third)] == [
        reply_to(job.tokens, 20) for job in (first, second, third)
    ]


def test_snapshots_give_way_to_requests_as_far_as_needed_and_no_further():
    """The least recently used go, as `pressure`, and the request starts at once."""
    house = room(800)
    for number in range(4):
        house.run(make_job(prompt(number), id=str(number), session=str(number), max_tokens=1))
    held = house.store.occupancy()
    assert held.entries == 4
    house.admission.offer(make_job(prompt(9, 200), id="large", session="9", max_tokens=40))
    house.step()

    assert house.scheduler.running == 1
    assert removals(house) == [Removal.PRESSURE]
    assert house.store.occupancy().entries == 3


def test_small_requests_do_not_overtake_a_large_one_that_waits_for_memory():
    """It would wait for ever where small ones keep coming."""
    house = room(600)
    house.admission.offer(make_job(prompt(0), id="running", session="0", max_tokens=100))
    house.step()
    house.admission.offer(make_job(prompt(1, 300), id="large", session="1", max_tokens=60))
    house.admission.offer(make_job(prompt(2, 5), id="small", session="2", max_tokens=5))
    house.step()
    assert house.scheduler.running == 1
    while house.step():
        pass

    begun = {
        event.job_id: event.started or 0.0 for event in house.events if isinstance(event, GenerationEnded)
    }
    assert begun["running"] < begun["large"] <= begun["small"]


def test_one_that_runs_alone_may_have_all_there_is():
    """No request waits for memory that nobody else has."""
    house = room(10)
    job = make_job(prompt(0), max_tokens=20)
    house.run(job)

    assert house.reply(job) == reply_to(job.tokens, 20)


def test_a_reply_that_outgrows_what_it_was_reckoned_with_ends_the_last_comer():
    """First snapshots go; then the request that started last is told, and the one before it goes on."""
    house = room(400, reply_tokens=10)
    first = make_job(prompt(1), id="first", session="1", max_tokens=200)
    last = make_job(prompt(2), id="last", session="2", max_tokens=200)
    house.run(first, last)

    assert house.last_words(last) == [NO_MEMORY]
    assert house.reply(first) == reply_to(first.tokens, 200)
    assert house.last_words(first) == [FinishReason.LENGTH]


def test_a_state_that_memory_has_no_room_for_is_not_copied():
    """The reply is whole; what was not kept is counted, and nothing was sealed for it."""
    house = room(180)
    house.run(make_job(prompt(0), max_tokens=20))

    assert rejections(house) == [Rejection.LOW_MEMORY]
    assert house.store.occupancy().entries == 0


def test_a_process_that_grows_beyond_its_limit_gives_up_snapshots_a_little_at_a_time():
    """So much as it is over, once in a while, and never a request; below the limit nothing goes."""
    house = room(4000)
    for number in range(4):
        house.run(make_job(prompt(number), id=str(number), session=str(number), max_tokens=1))
    house.footprint = house_limit = 5000 + 4000 - 2000
    house.step(LOOK_SECONDS)
    assert house.store.occupancy().entries == 4
    house.footprint = house_limit + 1
    house.step(LOOK_SECONDS)
    assert removals(house) == [Removal.PRESSURE]
    house.step(LOOK_SECONDS)
    assert removals(house) == [Removal.PRESSURE], "the system is given time to show it"
    house.step(RELIEF_SECONDS)
    assert removals(house) == [Removal.PRESSURE] * 2
    job = make_job(prompt(9), id="9", session="9")
    house.run(job)
    assert house.reply(job) == reply_to(job.tokens, 4)


def test_who_waits_longer_than_allowed_is_turned_away():
    """With 503; those that wait less, and the one that runs, go on."""
    house = ServingRoom(max_running=1, queue_seconds=10)
    running = make_job(prompt(0), id="running", session="0", max_tokens=40, submitted=house.clock())
    house.admission.offer(running)
    house.step()
    late = make_job(prompt(1), id="late", session="1", submitted=house.clock())
    house.admission.offer(late)
    for _ in range(8):
        house.step()
    early = make_job(prompt(2), id="early", session="2", submitted=house.clock() + 1000)
    house.run(early)

    assert house.last_words(late) == [QUEUE_TIMEOUT]
    assert house.ended()[late.id] is FinishReason.ERROR
    assert house.reply(running) == reply_to(running.tokens, 40)
    assert house.reply(early) == reply_to(early.tokens, 4)


@given(st.integers(0, 3000), st.integers(1, 4000))
def test_the_longest_context_is_the_longest_that_fits(states_bytes, tokens):
    """One token more would not."""
    made = plan(states_bytes)
    longest = made.longest(tokens)

    assert longest <= tokens
    assert longest == 0 or made.state_bytes(longest) <= states_bytes
    assert longest == tokens or made.state_bytes(longest + 1) > states_bytes


@given(
    st.lists(st.tuples(st.integers(1, 120), st.integers(1, 60)), min_size=1, max_size=12),
    st.integers(200, 900),
)
@pytest.mark.timeout(60)
def test_requests_and_snapshots_never_take_more_than_there_is(shapes, states_bytes):
    """For any requests whose replies are as long as they were reckoned with, each of which fits alone."""
    house = room(states_bytes)
    for number, (length, max_tokens) in enumerate(shapes):
        house.admission.offer(
            make_job(prompt(number, length), id=str(number), session=str(number), max_tokens=max_tokens)
        )
    while house.step():
        states = sum(FIXED + len(row.states) - 1 for row in house.decoder.rows.values())
        taken = states + house.store.occupancy().nbytes
        assert taken <= states_bytes or len(house.decoder.rows) == 1

    assert all(reason is FinishReason.LENGTH for reason in house.ended().values())
    assert len(house.ended()) == len(shapes)
