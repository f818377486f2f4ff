"""The scheduler's step, over a decoder whose every wrong state is visible in the reply."""

import pytest

from app.events import EngineRebuilt, GenerationEnded
from app.scheduler.core import ENGINE_FAILURE
from app.scheduler.job import Failed, Prefilled, Started
from app.scheduler.ports import StepOutput
from app.snapshots.limits import Limits
from app.vocabulary import FinishReason, Miss, Rejection, Removal
from tests.support.hash_chain import HashChainDecoder, reply_to
from tests.support.jobs import make_job
from tests.support.serving_room import ServingRoom

SMALL = Limits(capacity_bytes=10**9, max_entries=100, ttl_seconds=None, min_prefix_tokens=8)


def test_a_job_gets_the_models_reply_and_one_last_word():
    """Started, prefill progress, every token, and an end."""
    room = ServingRoom()
    job = make_job(range(40), max_tokens=5)

    room.run(job)

    assert room.reply(job) == reply_to(range(40), 5)
    assert room.deltas[job.id][0] == Started(0, Miss.EMPTY)
    assert Prefilled(40, 40) in room.deltas[job.id]
    assert room.last_words(job) == [FinishReason.LENGTH]


def test_the_next_turn_starts_from_the_boundary_and_computes_only_what_is_new():
    """A whole-state model hits on its boundary snapshot, and the reply is as if it were cold."""
    room = ServingRoom(HashChainDecoder(truncatable=False))
    first = make_job([*range(50), 900, 901], id="one", boundary=50)
    room.run(first)
    before = room.decoder.computed_tokens
    second = make_job([*range(50), *range(200, 220), 900, 901], id="two", boundary=70)

    room.run(second)

    assert room.started(second) == Started(50, None)
    assert room.reply(second) == reply_to(second.tokens, 4)
    assert room.decoder.computed_tokens - before == 22


def test_a_job_that_diverges_says_where():
    """How many tokens it shares with what is kept, on a model whose states cannot be cut back so far."""
    room = ServingRoom(HashChainDecoder(truncatable=False))
    room.run(make_job([*range(50), 900, 901], id="one", boundary=50))
    edited = make_job([*range(30), *range(200, 220)], id="two")

    room.run(edited)

    assert room.started(edited) == Started(0, Miss.DIVERGED, diverged_at=30)


def test_a_truncatable_model_reuses_the_common_prefix_of_a_diverging_turn():
    """The completion stands in for the boundary, and is cut back where the next prompt leaves it."""
    room = ServingRoom(HashChainDecoder(truncatable=True))
    first = make_job([*range(50), 900, 901], id="one", boundary=50)
    room.run(first)
    assert room.tally.read().occupancy.entries == 1
    second = make_job([*range(50), *range(200, 220)], id="two")

    room.run(second)

    assert room.started(second) == Started(50, None)
    assert room.reply(second) == reply_to(second.tokens, 4)


def test_a_replay_of_the_whole_prompt_leaves_one_token_to_run():
    """An identical prompt must not reuse all of itself."""
    room = ServingRoom(HashChainDecoder(truncatable=True))
    job = make_job(range(30), id="one")
    room.run(job)
    again = make_job(range(30), id="two")

    room.run(again)

    assert room.started(again) == Started(29, None)
    assert room.reply(again) == room.reply(job)


def test_jobs_of_unequal_length_run_together_and_never_mix():
    """Continuous batching changes no reply."""
    room = ServingRoom(max_running=3)
    jobs = [make_job(range(i, i + 5 + 13 * i), id=f"j{i}", session=f"s{i}", max_tokens=9) for i in range(7)]

    room.run(*jobs)

    assert [room.reply(job) for job in jobs] == [reply_to(job.tokens, 9) for job in jobs]


def test_no_more_than_max_running_jobs_are_on_the_decoder():
    """The running bound holds at every step."""
    room = ServingRoom(max_running=2)
    for i in range(5):
        room.admission.offer(make_job(range(20), id=f"j{i}"))

    seen = set()
    while room.step():
        seen.add(room.scheduler.running)
        assert len(room.decoder.rows) <= 2

    assert max(seen) == 2
    assert len(room.ended()) == 5


def test_another_session_does_not_see_a_snapshot():
    """Sessions share nothing but system prompts."""
    room = ServingRoom()
    room.run(make_job([*range(50), 900], id="one", boundary=50, session="a"))
    other = make_job([*range(50), 901], id="two", session="b")

    room.run(other)

    assert room.started(other).cached_tokens == 0


def test_a_client_that_opts_out_neither_reuses_nor_leaves_anything():
    """`cache_prompt: false` is no lookup and no capture, and is counted as such."""
    room = ServingRoom()
    room.run(make_job([*range(50), 900], id="one", boundary=50))
    held = room.tally.read().occupancy.entries
    job = make_job([*range(60), 900], id="two", boundary=60, use_snapshots=False)

    room.run(job)

    assert room.started(job) == Started(0, Miss.OPTED_OUT)
    assert room.tally.read().occupancy.entries == held
    assert room.tally.read().lookups["opted_out"] == 1


def test_without_completions_one_entry_a_conversation_is_the_steady_state():
    """The boundary of each turn supersedes the one before."""
    room = ServingRoom(HashChainDecoder(truncatable=False), store_completions=False)
    history: list[int] = []
    for turn in range(4):
        history = [*history, *range(100 * turn, 100 * turn + 30)]
        room.run(make_job([*history, 900], id=f"t{turn}", boundary=len(history)))

    reading = room.tally.read()
    assert reading.occupancy.entries == 1
    assert reading.removals[Removal.SUPERSEDED] == 3
    assert reading.lookups["hit"] == 3


def test_a_boundary_too_short_to_keep_is_counted_without_being_sealed():
    """The copy is saved where the store would refuse it anyway."""
    room = ServingRoom(HashChainDecoder(unsupported=True), limits=SMALL, store_completions=False)

    room.run(make_job([1, 2, 3, 4], boundary=3))

    rejections = room.tally.read().rejections
    assert rejections[Rejection.TOO_SHORT] == 1
    assert rejections[Rejection.UNSUPPORTED] == 0


def test_a_state_of_an_unknown_kind_is_refused_with_a_reason_and_the_request_is_served():
    """Reuse is lost, the reply is not."""
    room = ServingRoom(HashChainDecoder(unsupported=True))
    job = make_job(range(20), boundary=10)

    room.run(job)

    assert room.reply(job) == reply_to(range(20), 4)
    assert room.tally.read().rejections[Rejection.UNSUPPORTED] == 2
    assert room.tally.read().occupancy.entries == 0


def test_a_failed_restore_falls_back_to_the_next_candidate():
    """The shorter state serves, and the hit says how many failed before it."""
    room = ServingRoom(HashChainDecoder(truncatable=False))
    room.run(make_job([*range(20), 900], id="one", boundary=20))
    room.decoder.broken_restores = 1
    job = make_job([*range(20), 900, *reply_to([*range(20), 900], 4), 5, 7], id="two")

    room.run(job)

    assert room.started(job) == Started(20, None)
    assert room.reply(job) == reply_to(job.tokens, 4)


def test_when_every_restore_fails_the_start_is_cold_and_says_so():
    """A miss by failed restores is its own reason."""
    room = ServingRoom(HashChainDecoder(broken_restores=99))
    room.run(make_job([*range(20), 900], id="one", boundary=20))
    job = make_job([*range(20), 901], id="two")

    room.run(job)

    assert room.started(job) == Started(0, Miss.RESTORE_FAILED)
    assert room.reply(job) == reply_to(job.tokens, 4)


def test_a_step_that_raises_fails_its_jobs_rebuilds_and_keeps_the_store():
    """The process goes on, the next request is served and still hits."""
    room = ServingRoom(HashChainDecoder(truncatable=False))
    room.run(make_job([*range(50), 900], id="one", boundary=50))
    room.decoder.raise_at = {room.decoder.steps + 2}
    victims = [make_job([7, 8, 9], id="v1"), make_job([7, 8], id="v2", max_tokens=90)]
    room.run(*victims)
    after = make_job([*range(50), 901], id="after")

    room.run(after)

    assert [room.last_words(job) for job in victims] == [[ENGINE_FAILURE]] * 2
    assert room.decoder.rebuilds == 1
    assert [event for event in room.events if isinstance(event, EngineRebuilt)] == [
        EngineRebuilt("RuntimeError", 2)
    ]
    assert room.started(after) == Started(50, None)
    assert room.reply(after) == reply_to(after.tokens, 4)


def test_jobs_that_wait_survive_a_rebuild():
    """Only the batch that failed is lost."""
    room = ServingRoom(HashChainDecoder(raise_at={2}), max_running=1)
    first, second = make_job(range(20), id="first"), make_job(range(20), id="second")

    room.run(first, second)

    assert room.last_words(first) == [ENGINE_FAILURE]
    assert room.reply(second) == reply_to(range(20), 4)


def test_when_the_engine_cannot_go_on_everyone_gets_a_last_word():
    """Running and waiting jobs alike, once."""
    room = ServingRoom(max_running=1)
    jobs = [make_job(range(10), id=f"j{i}", max_tokens=50) for i in range(3)]
    for job in jobs:
        room.admission.offer(job)
    room.step()

    room.scheduler.fail_all("the end")

    assert [room.last_words(job) for job in jobs] == [["the end"]] * 3
    assert set(room.ended().values()) == {FinishReason.ERROR}


def test_the_times_of_a_generation_are_those_of_its_stages():
    """queued ≤ started ≤ first token ≤ ended, in the clock's seconds."""
    room = ServingRoom(HashChainDecoder(chunk=10))
    job = make_job(range(30), max_tokens=3, submitted=room.clock())

    room.run(job)

    (end,) = (event for event in room.events if isinstance(event, GenerationEnded))
    assert end.started is not None
    assert end.first_token is not None
    assert (end.started - end.queued, end.first_token - end.started, end.ended - end.first_token) == (1, 3, 2)
    assert (end.prompt_tokens, end.cached_tokens, end.generated_tokens) == (30, 0, 3)


def test_gaps_between_tokens_are_told_once_a_step_for_all_rows():
    """First tokens have no gap before them."""
    room = ServingRoom()
    room.run(*(make_job(range(10), id=f"j{i}", max_tokens=3) for i in range(2)))

    assert room.gaps == [(1.0, 2), (1.0, 2)]


def test_idle_sweeps_what_has_expired():
    """Expired entries do not wait for a lookup."""
    limits = Limits(capacity_bytes=10**9, max_entries=9, ttl_seconds=60, min_prefix_tokens=1)
    room = ServingRoom(limits=limits)
    room.run(make_job(range(10)))
    room.clock.advance(60)

    room.scheduler.idle()

    assert room.tally.read().occupancy.entries == 0
    assert room.tally.read().removals[Removal.TTL] == 1


@pytest.mark.parametrize("enabled", [True, False])
def test_the_store_changes_no_reply(enabled: bool):
    """The same conversation with the store on and off says the same."""
    limits = Limits(
        capacity_bytes=10**9, max_entries=9, ttl_seconds=None, min_prefix_tokens=1, enabled=enabled
    )
    room = ServingRoom(limits=limits)
    history: list[int] = []
    for turn in range(3):
        history = [*history, *range(turn, turn + 25)]
        job = make_job([*history, 900], id=f"t{turn}", boundary=len(history))
        room.run(job)
        assert room.reply(job) == reply_to(job.tokens, 4)
        assert (room.started(job).cached_tokens > 0) is (enabled and turn > 0)
        history = [*history, 900, *room.reply(job)]


class FailingRow(HashChainDecoder):
    """A decoder that cannot go on with one of its jobs after two tokens of it."""

    def step(self):
        output = super().step()
        going, failed = [], []
        for job_id, generated in output.generated:
            if job_id == "bad" and self.rows[job_id].generated > 2:
                failed.append((job_id, Failed("it cannot go on", 400)))
            else:
                going.append((job_id, generated))
        return StepOutput(output.prefilled, output.segment_ends, going, failed)


def test_a_row_that_cannot_go_on_fails_alone():
    """Its job ends with the decoder's word and frees its place; the others and the store are as ever."""
    room = ServingRoom(FailingRow())
    bad = make_job(range(40), id="bad", max_tokens=9)
    good = make_job(range(100, 140), id="good", max_tokens=9)

    room.run(bad, good)

    assert room.deltas[bad.id][-1] == Failed("it cannot go on", 400)
    assert room.ended() == {"bad": FinishReason.ERROR, "good": FinishReason.LENGTH}
    assert room.reply(good) == reply_to(range(100, 140), 9)
    assert room.decoder.rebuilds == 0
    assert not room.decoder.rows
