"""System anchors, ancestors and truncation as jobs see them; every wrong state shows in the reply."""

from app.events import PayloadSealed
from app.scheduler.job import Boundary, Started
from app.snapshots.limits import Limits
from app.vocabulary import Miss, Origin, Rejection, Removal
from tests.support.hash_chain import HashChainDecoder, reply_to
from tests.support.jobs import make_job
from tests.support.serving_room import ServingRoom

SYSTEM = tuple(range(1000, 1040))


def whole_states(*, shared_prefix_tokens=32, **limits):
    """A room whose states serve as a whole or not at all."""
    values = {"capacity_bytes": 10**9, "max_entries": 1000, "ttl_seconds": None, "min_prefix_tokens": 1}
    return ServingRoom(
        HashChainDecoder(truncatable=False),
        limits=Limits(**(values | limits)),
        store_completions=False,
        shared_prefix_tokens=shared_prefix_tokens,
    )


def job(id, *message, session, system=SYSTEM, **others):  # noqa: A002 - it is the job's id
    """A conversation under `system`, with a generation prompt of two tokens."""
    history = [*system, *message]
    made = make_job([*history, 900, 901], id=id, session=session, **others)
    boundaries = (Boundary(Origin.SYSTEM, len(system)), Boundary(Origin.BOUNDARY, len(history)))
    return type(made)(**{name: getattr(made, name) for name in made.__slots__} | {"boundaries": boundaries})


def seals(room, origin):
    return sum(isinstance(event, PayloadSealed) and event.origin is origin for event in room.events)


def test_a_new_conversation_under_a_known_system_prompt_starts_warm():
    """Another session restores the anchor, computes only what is its own, and says what it says cold."""
    room = whole_states()
    room.run(job("one", 1, 2, 3, session="a"))
    before = room.decoder.computed_tokens
    second = job("two", 7, 8, session="b")

    room.run(second)

    assert room.started(second) == Started(len(SYSTEM), None)
    assert room.reply(second) == reply_to(second.tokens, 4)
    assert room.decoder.computed_tokens - before == 4


def test_a_system_prompt_is_captured_once():
    """Who starts from it neither stops for it nor copies it again."""
    room = whole_states()
    for number in range(4):
        room.run(job(f"j{number}", number, session=f"s{number}"))

    reading = room.tally.read()
    assert seals(room, Origin.SYSTEM) == 1
    assert reading.inserts[Origin.SYSTEM] == 1
    assert reading.occupancy.by_origin[Origin.SYSTEM][0] == 1
    assert reading.removals[Removal.REPLACED] == 0


def test_jobs_that_start_together_capture_it_once():
    """Each was admitted before the store had it; the second finds it there when it gets so far."""
    room = whole_states(shared_prefix_tokens=1000)
    jobs = [job("one", 1, session="a"), job("two", 2, session="b")]
    room.run(*jobs)

    assert [room.started(each).cached_tokens for each in jobs] == [0, 0]
    assert seals(room, Origin.SYSTEM) == 1
    assert room.tally.read().inserts[Origin.SYSTEM] == 1


def test_a_job_waits_for_the_anchor_that_another_one_is_about_to_leave():
    """Of two new conversations that come together, one computes the system prompt."""
    room = whole_states()
    jobs = [job("one", 1, session="a"), job("two", 2, session="b")]
    room.run(*jobs)

    assert [room.started(each).cached_tokens for each in jobs] == [0, len(SYSTEM)]
    assert room.decoder.computed_tokens == len(SYSTEM) + 2 * 3
    assert [room.reply(each) for each in jobs] == [reply_to(each.tokens, 4) for each in jobs]


def test_a_conversation_goes_on_from_its_own_state():
    """The longer state of the session wins over the shared one, which stays as it was."""
    room = whole_states()
    room.run(job("one", 1, 2, session="a"))
    second = job("two", 1, 2, 3, 4, session="a")

    room.run(second)

    assert room.started(second) == Started(len(SYSTEM) + 2, None)
    assert room.tally.read().occupancy.by_origin[Origin.SYSTEM][0] == 1
    assert room.tally.read().removals[Removal.SUPERSEDED] == 1


def test_an_anchor_that_was_evicted_is_captured_by_the_next_who_computes_it():
    """Once it is gone, the next new conversation brings it back."""
    room = whole_states()
    room.run(job("one", 1, session="a"))
    room.store.clear()
    second = job("two", 2, session="b")

    room.run(second)

    assert room.started(second) == Started(0, Miss.EMPTY)
    assert room.tally.read().inserts[Origin.SYSTEM] == 2


def test_a_client_that_opts_out_leaves_no_anchor():
    """Its system prompt is not kept for others."""
    room = whole_states()
    room.run(job("one", 1, session="a", use_snapshots=False))

    assert room.tally.read().occupancy.entries == 0


def test_an_anchor_too_short_to_keep_is_refused():
    """The store's shortest prefix holds for anchors too."""
    room = whole_states(min_prefix_tokens=41)
    room.run(job("one", 1, 2, session="a"))

    assert room.tally.read().rejections[Rejection.TOO_SHORT] == 1
    assert room.tally.read().inserts[Origin.SYSTEM] == 0


def test_states_that_can_be_cut_share_what_two_system_prompts_have_in_common():
    """Where the new system prompt leaves the known one, its state is cut back to that point."""
    room = ServingRoom(HashChainDecoder(truncatable=True))
    room.run(job("one", 1, session="a"))
    other = job("two", 1, session="b", system=(*SYSTEM[:30], 5, 6, 7))

    room.run(other)

    assert room.started(other) == Started(30, None)
    assert room.reply(other) == reply_to(other.tokens, 4)


def test_an_edited_last_message_reuses_the_common_prefix_where_states_can_be_cut():
    """One entry serves the conversation and its edit; the reply is as if it were cold."""
    room = ServingRoom(HashChainDecoder(truncatable=True))
    first = make_job([*range(50), 900], id="one", boundary=50)
    room.run(first)
    said = [*first.tokens, *room.reply(first)]
    second = make_job([*said, *range(200, 220), 900], id="two", boundary=len(said) + 20)
    room.run(second)
    assert room.tally.read().occupancy.entries == 1
    edited = make_job([*said, *range(200, 205), *range(300, 310), 900], id="three")

    room.run(edited)

    assert room.started(edited) == Started(len(said) + 5, None)
    assert room.reply(edited) == reply_to(edited.tokens, 4)


def talk(room, turns):
    """Turns of one session of ten new tokens each; the histories."""
    history: list[int] = []
    histories = []
    for turn in range(turns):
        history = [*history, *range(100 * turn, 100 * turn + 10)]
        room.run(make_job([*history, 900], id=f"t{turn}", boundary=len(history)))
        histories.append(list(history))
    return histories


def edited_last_message(room, turns=3):
    """How a prompt starts that says something else in the last of `turns` turns."""
    histories = talk(room, turns)
    edited = make_job([*histories[-2], 77, 78, 79, 900], id="edited", boundary=len(histories[-2]) + 3)
    room.run(edited)
    assert room.reply(edited) == reply_to(edited.tokens, 4)
    return room.started(edited).cached_tokens


def test_an_edited_last_message_starts_from_the_turn_before_where_that_is_kept():
    """Strict supersede leaves nothing to go back to; a kept ancestor is the state before the message."""
    assert edited_last_message(whole_states()) == 0
    assert edited_last_message(whole_states(keep_ancestors=1)) == 20


def test_the_last_messages_can_be_edited_again_and_again():
    """The ancestor is the conversation's state again, and is kept when it is superseded anew."""
    room = whole_states(keep_ancestors=1)
    histories = talk(room, 3)
    for attempt in range(3):
        edited = make_job([*histories[1], 500 + attempt, 900], id=f"e{attempt}", boundary=21)
        room.run(edited)
        assert room.started(edited) == Started(20, None)
    assert room.tally.read().removals[Removal.LRU_ENTRIES] == 0
