"""Who goes first: kept ancestors before all others, system prompts that proved useful after all others."""

from app.snapshots.entry import pack
from app.vocabulary import Origin, Removal
from tests.support.snapshots import BUCKET, Heard, limits

PROMPT = range(1, 140)


def talked(heard: Heard, *lengths: int, session: str = "s", cuts_from: int | None = None) -> None:
    """Store a boundary of each length, a second apart."""
    for length in lengths:
        heard.clock.advance(1)
        heard.put(PROMPT[:length], session=session, cuts_from=cuts_from)


# System anchors.


def test_a_system_prompt_that_was_used_is_evicted_last() -> None:
    """Conversations make room before it does, though it was used longer ago than they."""
    heard = Heard(limits(max_entries=3))
    heard.put(PROMPT[:5], origin=Origin.SYSTEM)
    heard.use(PROMPT[:9])
    for session in "abc":
        heard.put([7, 7], session=session)

    assert heard.removals == [(2, Removal.LRU_ENTRIES)]
    assert heard.held == [3, 4, 1]


def test_a_system_prompt_nobody_started_from_goes_like_any_other() -> None:
    """Where each conversation has a system prompt of its own, these do not push conversations out."""
    heard = Heard(limits(max_entries=3))
    for number in range(3):
        heard.put([number, 5, 5], origin=Origin.SYSTEM)
        heard.put([number, 5, 5, 6], session=str(number))

    assert heard.removals == [(1, Removal.LRU_ENTRIES), (2, Removal.LRU_ENTRIES), (3, Removal.LRU_ENTRIES)]
    assert heard.held == [4, 5, 6]


def test_a_system_prompt_is_not_raised_by_what_is_cut_out_of_it() -> None:
    """Yesterday's date in it was cut away: nobody will ask for the whole of it again."""
    heard = Heard(limits(max_entries=2))
    heard.put([*PROMPT[:5], 999], origin=Origin.SYSTEM, cuts_from=0)
    assert heard.use(PROMPT[:9]) == 5
    heard.put([7, 7], session="a")
    heard.put([8, 8], session="b")

    assert heard.held == [2, 3]


def test_among_system_prompts_the_least_recently_used_goes_first() -> None:
    """A hit saves one from a younger one, once there is nothing else to evict."""
    heard = Heard(limits(max_entries=2))
    heard.put([1, 1], origin=Origin.SYSTEM)
    heard.put([2, 2], origin=Origin.SYSTEM)
    for first in (1, 2, 1):
        heard.use([first, first, 9])
    heard.put([3, 3])

    assert heard.held == [3, 1]


def test_a_reply_s_boundary_goes_before_a_system_prompt() -> None:
    """What one conversation has next is worth less than what all conversations share."""
    heard = Heard(limits(max_entries=2))
    heard.put(PROMPT[:5], origin=Origin.SYSTEM)
    heard.use(PROMPT[:9])
    heard.put(PROMPT[:9], origin=Origin.BOUNDARY)
    heard.put(PROMPT[:12], origin=Origin.COMPLETION)

    assert heard.held == [3, 1]
    assert heard.self_evictions == [2]


def test_a_system_prompt_expires_like_any_other() -> None:
    """Its place in the line of evictions does not make it immortal, and each hit gives it time again."""
    heard = Heard(limits(ttl_seconds=60))
    heard.put(PROMPT[:5], origin=Origin.SYSTEM)
    heard.clock.advance(40)
    heard.use(PROMPT[:9])
    heard.clock.advance(40)
    assert heard.store.sweep() == 0
    heard.clock.advance(20)

    assert heard.store.sweep() == 1


def test_an_anchor_is_known_by_its_tokens_and_bucket() -> None:
    """Neither a longer one, nor a conversation of the same tokens, nor an expired one is it."""
    heard = Heard(limits(ttl_seconds=60))
    heard.put(PROMPT[:5])
    heard.put(PROMPT[:6], origin=Origin.SYSTEM)

    def known(length: int) -> bool:
        return heard.store.has_anchor(bucket=BUCKET, tokens=pack(PROMPT[:length]))

    assert [known(5), known(6), known(7)] == [False, True, False]
    heard.clock.advance(60)
    assert not known(6)
    assert heard.removals == [(1, Removal.TTL), (2, Removal.TTL)]


# Kept ancestors.


def test_the_newest_superseded_boundaries_stay() -> None:
    """As many as the session may keep; the others leave as superseded, the oldest first."""
    heard = Heard(limits(keep_ancestors=2))
    talked(heard, 3, 4, 5, 6)

    assert heard.held == [2, 3, 4]
    assert heard.removals == [(1, Removal.SUPERSEDED)]


def test_none_stays_where_none_is_asked_for() -> None:
    """Strict supersede is the default: a conversation has one entry."""
    heard = Heard()
    talked(heard, 3, 4, 5)

    assert heard.held == [3]


def test_what_the_newcomer_can_be_cut_back_to_does_not_stay() -> None:
    """A state that can be cut serves every edit itself."""
    heard = Heard(limits(keep_ancestors=2))
    talked(heard, 3, 4, 5, cuts_from=0)

    assert heard.held == [3]


def test_completions_do_not_stay() -> None:
    """What a client goes back to is the end of a message."""
    heard = Heard(limits(keep_ancestors=2))
    heard.put(PROMPT[:4], origin=Origin.COMPLETION)
    heard.put(PROMPT[:6], origin=Origin.COMPLETION)

    assert heard.held == [2]


def test_each_session_keeps_its_own() -> None:
    """One session's turns do not cost another its ancestors."""
    heard = Heard(limits(keep_ancestors=1))
    talked(heard, 3, 4, session="a")
    talked(heard, 3, 4, 5, session="b")

    assert heard.held == [1, 4, 2, 5]


def test_ancestors_make_room_before_all_others_and_leave_as_superseded() -> None:
    """The oldest goes first, whoever's it is, and it is nobody's eviction."""
    heard = Heard(limits(max_entries=4, keep_ancestors=1))
    heard.put([7, 7], session="old")
    talked(heard, 3, 4, session="a")
    talked(heard, 3, session="b")
    talked(heard, 5, session="a")
    talked(heard, 4, session="b")

    assert heard.removals == [(2, Removal.SUPERSEDED), (3, Removal.SUPERSEDED)]
    assert heard.held == [4, 1, 5, 6]
    assert heard.self_evictions == []


def test_under_pressure_ancestors_leave_as_superseded_too() -> None:
    """Memory for running requests comes from them first."""
    heard = Heard(limits(keep_ancestors=1))
    talked(heard, 3, 4)

    assert heard.store.shed(2) == 2
    assert heard.removals == [(1, Removal.SUPERSEDED), (2, Removal.PRESSURE)]


def test_the_dead_make_room_before_ancestors() -> None:
    """An expired entry leaves as expired, and what it frees saves an ancestor."""
    heard = Heard(limits(max_entries=3, ttl_seconds=60, keep_ancestors=1))
    heard.put([7, 7], session="dead")
    heard.clock.advance(50)
    talked(heard, 3, 4)
    heard.clock.advance(10)
    heard.put([8, 8], session="new")

    assert heard.removals == [(1, Removal.TTL)]
    assert heard.held == [2, 3, 4]


def test_an_ancestor_that_is_hit_is_the_conversation_s_state_again() -> None:
    """It is live until another boundary supersedes it, and only then an ancestor anew."""
    heard = Heard(limits(max_entries=3, keep_ancestors=1))
    talked(heard, 3, 5)
    assert heard.use([1, 2, 3, 77]) == 3
    assert heard.held == [2, 1]

    heard.put([1, 2, 3, 77, 78])
    assert heard.held == [1, 2, 3]


def test_an_ancestor_lives_from_when_it_was_superseded() -> None:
    """Later turns of its session do not lengthen its life; a hit does."""
    heard = Heard(limits(ttl_seconds=60, keep_ancestors=2))
    talked(heard, 3, 4)
    heard.clock.advance(30)
    heard.put(PROMPT[:5])
    heard.clock.advance(30)

    assert heard.store.sweep() == 1
    assert heard.removals == [(1, Removal.TTL)]
    assert heard.held == [2, 3]


def test_the_same_tokens_captured_anew_replace_an_ancestor() -> None:
    """It is live again as the new entry."""
    heard = Heard(limits(keep_ancestors=1))
    talked(heard, 3, 5, 3)

    assert heard.removals == [(1, Removal.REPLACED)]
    assert heard.held == [2, 3]


def test_dead_sessions_leave_no_list_of_ancestors_behind() -> None:
    """What is kept for a session goes with its last ancestor."""
    heard = Heard(limits(max_entries=2, keep_ancestors=1))
    for number in range(100):
        talked(heard, 3, 4, session=str(number))
    heard.store.clear()

    assert heard.store._held._kept == {}
