"""Warm-ups, over a decoder whose every wrong state is visible in the reply: only in idle time."""

from app.events import (
    EngineRebuilt,
    GenerationEnded,
    SnapshotInserted,
    SnapshotRemoved,
    Transaction,
    WarmupEnded,
)
from app.scheduler.job import Boundary, Started
from app.scheduler.warming import CHUNK_TOKENS, WORTHWHILE_TOKENS
from app.scheduler.warmup_queue import MAX_PENDING
from app.snapshots.limits import Limits
from app.vocabulary import Origin, Rejection, Removal, Warmup
from tests.support.hash_chain import HashChainDecoder, reply_to
from tests.support.jobs import make_job
from tests.support.serving_room import ServingRoom

HISTORY = [*range(50)]
REPLY = [*range(1000, 1300)]
"""The assistant's turn as the next prompt shows it: other tokens than those that were generated."""
QUESTION = [*range(2000, 2020)]
BEGIN_REPLY = [900, 901]


def first_turn(session="session"):
    return make_job(
        [*HISTORY, *BEGIN_REPLY], id=f"first of {session}", boundary=len(HISTORY), session=session
    )


def warmup(history=(*HISTORY, *REPLY), session="session", name="warmup"):
    return make_job([*history, 7], id=f"{name} of {session}", boundary=len(history), session=session)


def second_turn(history=(*HISTORY, *REPLY), session="session"):
    history = [*history, *QUESTION]
    return make_job(
        [*history, *BEGIN_REPLY], id=f"second of {session}", boundary=len(history), session=session
    )


def room_with_first_turn(**options):
    """A model whose states serve whole or not at all, after one turn of one conversation."""
    room = ServingRoom(HashChainDecoder(chunk=options.pop("chunk", 512)), store_completions=False, **options)
    room.run(first_turn())
    return room


def warmups(room):
    return [event for event in room.events if isinstance(event, WarmupEnded)]


def outcomes(room):
    return [event.outcome for event in warmups(room)]


def entries(room):
    return room.tally.read().occupancy.entries


def until_idle(room):
    while room.step():
        pass


def test_a_warmed_turn_computes_nothing_but_what_is_new():
    """The next turn starts behind the assistant's turn, and its reply is as if it were cold."""
    room = room_with_first_turn()
    room.warmups.offer(warmup())
    until_idle(room)
    before = room.decoder.computed_tokens

    room.run(second_turn())

    assert outcomes(room) == [Warmup.RUN]
    assert room.started(second_turn()) == Started(len(HISTORY) + len(REPLY), None)
    assert room.decoder.computed_tokens - before == len(QUESTION) + len(BEGIN_REPLY)
    assert room.reply(second_turn()) == reply_to(second_turn().tokens, 4)


def test_a_warmup_computes_only_the_reply_and_generates_nothing():
    """It goes on from the boundary; nobody is told a token, and nothing stays on the decoder."""
    room = room_with_first_turn()
    told = dict(room.deltas)
    before = room.decoder.computed_tokens

    room.warmups.offer(warmup())
    until_idle(room)

    (ended,) = warmups(room)
    assert (ended.tokens, ended.computed_tokens) == (len(HISTORY) + len(REPLY), len(REPLY))
    assert room.decoder.computed_tokens - before == len(REPLY)
    assert room.deltas == told
    assert room.decoder.rows == {}
    assert len([event for event in room.events if isinstance(event, GenerationEnded)]) == 1


def test_its_own_lookup_is_not_counted():
    """Hits and misses are clients'."""
    room = room_with_first_turn()
    before = room.tally.read()

    room.warmups.offer(warmup())
    until_idle(room)

    after = room.tally.read()
    assert (after.lookups, after.lookup_tokens) == (before.lookups, before.lookup_tokens)


def test_the_old_boundary_makes_way_when_the_new_one_is_hit_and_not_before():
    """Two entries while it is a guess, one after the next turn."""
    room = room_with_first_turn()
    room.warmups.offer(warmup())
    until_idle(room)
    assert (entries(room), room.tally.read().removals[Removal.SUPERSEDED]) == (2, 0)

    room.admission.offer(second_turn())
    room.step()

    lookup = next(t for t in reversed(room.events) if isinstance(t, Transaction) and t.call == "lookup")
    (gone,) = (event for event in lookup.events if isinstance(event, SnapshotRemoved))
    assert (gone.reason, gone.entry.tokens) == (Removal.SUPERSEDED, len(HISTORY))
    until_idle(room)
    assert entries(room) == 1


def test_a_turn_that_goes_another_way_starts_from_the_old_boundary():
    """A wrong guess costs nothing but the idle time."""
    room = room_with_first_turn()
    room.warmups.offer(warmup())
    until_idle(room)
    other = second_turn(history=(*HISTORY, *range(5000, 5040)))

    room.run(other)

    assert room.started(other) == Started(len(HISTORY), None)
    assert room.reply(other) == reply_to(other.tokens, 4)


def test_while_a_job_runs_no_warmup_does():
    """It waits for the last token of the last job."""
    room = room_with_first_turn()
    room.admission.offer(make_job(range(600), id="long", session="other", max_tokens=50))
    room.step()
    room.warmups.offer(warmup())

    while room.scheduler.running:
        assert outcomes(room) == []
        assert len(room.decoder.rows) == 1
        room.step()
    until_idle(room)

    assert outcomes(room) == [Warmup.RUN]


def test_a_request_waits_for_no_more_than_one_chunk_of_a_warmup():
    """What arrives takes the decoder at the next step; the warm-up is tried again and is right."""
    room = room_with_first_turn()
    room.warmups.offer(warmup())
    before = room.decoder.computed_tokens
    room.step()
    assert room.decoder.computed_tokens - before == CHUNK_TOKENS
    other = make_job(range(30), id="other", session="other")

    room.admission.offer(other)
    room.step()

    assert list(room.decoder.rows) == [other.id]
    until_idle(room)
    assert outcomes(room) == [Warmup.PREEMPTED, Warmup.RUN]
    assert [event.computed_tokens for event in warmups(room)] == [CHUNK_TOKENS, len(REPLY)]
    room.run(second_turn())
    assert room.started(second_turn()).cached_tokens == len(HISTORY) + len(REPLY)
    assert room.reply(second_turn()) == reply_to(second_turn().tokens, 4)


def test_a_request_that_is_being_prepared_waits_for_no_further_chunk():
    """The warm-up stands still until that request is there, or is not to come."""
    room = room_with_first_turn()
    room.warmups.offer(warmup())
    room.step()
    with room.admission.expecting():
        before = room.decoder.computed_tokens
        went_on = [room.step(), room.step()]
        meanwhile = room.decoder.computed_tokens - before
    until_idle(room)

    assert (went_on, meanwhile, outcomes(room)) == ([False, False], 0, [Warmup.RUN])


def test_the_next_turn_itself_ends_the_warmup_for_it():
    """What is asked for now need not be prepared any more, begun or not."""
    for steps in (0, 1):
        room = room_with_first_turn()
        room.warmups.offer(warmup())
        for _ in range(steps):
            room.step()

        room.run(second_turn())

        assert outcomes(room) == [*[Warmup.PREEMPTED] * steps, Warmup.SUPERSEDED]
        assert room.started(second_turn()) == Started(len(HISTORY), None)
        assert room.reply(second_turn()) == reply_to(second_turn().tokens, 4)


def test_of_two_warmups_of_one_session_the_newer_is_run():
    """One pending a session."""
    room = room_with_first_turn()
    room.warmups.offer(warmup(history=(*HISTORY, *REPLY[:100])))
    room.warmups.offer(warmup())

    until_idle(room)

    assert [(event.outcome, event.tokens) for event in warmups(room)] == [
        (Warmup.SUPERSEDED, len(HISTORY) + 100),
        (Warmup.RUN, len(HISTORY) + len(REPLY)),
    ]


def test_a_full_queue_drops_the_oldest():
    """The bound holds, and what was dropped is counted."""
    room = ServingRoom(HashChainDecoder(chunk=512), store_completions=False, max_running=100)
    sessions = [f"s{n}" for n in range(MAX_PENDING + 2)]
    room.run(*(first_turn(session) for session in sessions))
    for session in sessions:
        room.warmups.offer(warmup(session=session))
    assert len(room.warmups) == MAX_PENDING

    until_idle(room)

    assert outcomes(room) == [Warmup.DROPPED] * 2 + [Warmup.RUN] * MAX_PENDING
    room.run(second_turn(session="s0"), second_turn(session="s9"))
    assert room.started(second_turn(session="s0")).cached_tokens == len(HISTORY)
    assert room.started(second_turn(session="s9")).cached_tokens == len(HISTORY) + len(REPLY)


def test_a_preempted_warmup_makes_room_for_newer_ones():
    """Put back, it is the oldest: superseded by its session's newer one, dropped where there is no room."""
    for newcomers, outcome in (
        (["session"], Warmup.SUPERSEDED),
        ([f"s{n}" for n in range(MAX_PENDING)], Warmup.DROPPED),
    ):
        room = room_with_first_turn()
        room.warmups.offer(warmup())
        room.step()
        for session in newcomers:
            room.warmups.offer(warmup(session=session, name="newer"))
        room.admission.offer(make_job(range(30), id="other", session="other"))
        room.step()

        assert outcomes(room) == [Warmup.PREEMPTED, outcome]
        assert len(room.warmups) == len(newcomers)


def test_what_saves_too_little_is_not_run():
    """A reply of a few tokens is not worth a second entry."""
    room = room_with_first_turn()
    room.warmups.offer(warmup(history=(*HISTORY, *REPLY[: WORTHWHILE_TOKENS - 1])))
    until_idle(room)
    room.warmups.offer(warmup(history=(*HISTORY, *REPLY[:WORTHWHILE_TOKENS])))
    until_idle(room)

    assert outcomes(room) == [Warmup.COVERED, Warmup.RUN]


def test_where_a_completion_can_be_cut_back_it_covers_what_it_matches():
    """On a dense model a warm-up is run only where the template shows the reply in other tokens."""
    for echoed, outcome in ((True, Warmup.COVERED), (False, Warmup.RUN)):
        room = ServingRoom(HashChainDecoder(truncatable=True, chunk=512))
        job = make_job([*HISTORY, *BEGIN_REPLY], id="first", boundary=50, max_tokens=40)
        room.run(job)
        said = room.reply(job) if echoed else REPLY
        history = (*job.tokens, *said)

        room.warmups.offer(warmup(history=history))
        until_idle(room)

        assert outcomes(room) == [outcome]
        room.run(second_turn(history=history))
        assert room.started(second_turn(history=history)).cached_tokens == len(history)


def test_without_a_state_to_go_on_from_nothing_is_run():
    """After a reset the whole history would have to be computed, and nobody may ask for it again."""
    room = room_with_first_turn()
    room.store.clear()
    room.warmups.offer(warmup())
    until_idle(room)

    assert outcomes(room) == [Warmup.NO_ANCESTOR]


def test_a_state_that_the_store_rejects_is_told_as_such():
    """The warm-up has run in vain; the store counts its own rejection."""
    limits = Limits(capacity_bytes=1200, max_entries=9, ttl_seconds=None, min_prefix_tokens=1)
    room = room_with_first_turn(limits=limits)
    room.warmups.offer(warmup())
    until_idle(room)

    assert outcomes(room) == [Warmup.REJECTED]
    assert room.tally.read().rejections[Rejection.OVERSIZED] == 1
    assert entries(room) == 1


def test_a_failed_restore_ends_the_warmup_alone():
    """The conversation is served as if there had been none."""
    room = room_with_first_turn()
    room.decoder.broken_restores = 1
    room.warmups.offer(warmup())
    until_idle(room)
    assert outcomes(room) == [Warmup.FAILED]

    room.run(second_turn())

    assert room.started(second_turn()).cached_tokens == len(HISTORY)


def test_a_step_that_raises_in_a_warmup_fails_no_request():
    """The batch is built anew, the warm-up is lost, and the next request is right."""
    room = room_with_first_turn()
    room.decoder.raise_at = {room.decoder.steps + 2}
    room.warmups.offer(warmup())
    until_idle(room)

    assert outcomes(room) == [Warmup.FAILED]
    assert [event.failed_jobs for event in room.events if isinstance(event, EngineRebuilt)] == [0]
    room.run(second_turn())
    assert room.reply(second_turn()) == reply_to(second_turn().tokens, 4)


def test_a_small_chunk_of_the_decoder_stays_small():
    """Segments only ever shorten a step."""
    room = room_with_first_turn(chunk=50)
    room.warmups.offer(warmup())
    before = room.decoder.computed_tokens
    room.step()
    assert room.decoder.computed_tokens - before == 50

    until_idle(room)

    inserted = [
        event.entry
        for transaction in room.events
        if isinstance(transaction, Transaction)
        for event in transaction.events
        if isinstance(event, SnapshotInserted)
    ]
    assert [(entry.origin, entry.tokens) for entry in inserted] == [
        (Origin.BOUNDARY, len(HISTORY)),
        (Origin.BOUNDARY, len(HISTORY) + len(REPLY)),
    ]


def test_only_the_last_boundary_of_a_warmup_is_kept():
    """Chunks are cut by segments as well; what lies at their ends is not stored."""
    room = room_with_first_turn()
    job = warmup()
    assert job.boundaries == (Boundary(Origin.BOUNDARY, len(HISTORY) + len(REPLY)),)
    assert len(REPLY) > 2 * CHUNK_TOKENS
    room.warmups.offer(job)
    until_idle(room)

    assert room.tally.read().inserts[Origin.BOUNDARY] == 2
