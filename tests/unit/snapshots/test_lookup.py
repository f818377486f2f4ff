"""What a request may start from, best first, and why it would start cold."""

from dataclasses import dataclass, field, replace

import pytest

from app.events import LookupHit, LookupMissed
from app.snapshots.entry import pack
from app.snapshots.store import SnapshotStore
from app.vocabulary import Miss, Origin
from tests.support.snapshots import BUCKET, Heard, limits

PROMPT = range(1, 140)


def used(heard: Heard, tokens: range | list[int], session: str | None = "s") -> list[tuple[int, int]]:
    """(entry id, tokens to restore) of every candidate, best first."""
    found = heard.find(tokens, session=session)
    return [(candidate.entry.id, candidate.use_tokens) for candidate in found.candidates]


def test_the_longest_strict_prefix_comes_first_and_shorter_ones_follow() -> None:
    """All entries that the request continues are candidates, the longest first."""
    heard = Heard(limits(supersede=False))
    for length in (3, 5, 4):
        heard.put(PROMPT[:length])

    assert used(heard, PROMPT) == [(2, 5), (3, 4), (1, 3)]


def test_a_shared_entry_competes_by_length() -> None:
    """A `system` entry is a fallback of a longer one of the session, and is preferred to a shorter one."""
    heard = Heard()
    heard.put(PROMPT[:5], origin=Origin.SYSTEM)
    heard.put(PROMPT[:4], session="short")
    heard.put(PROMPT[:6], session="long")

    assert used(heard, PROMPT, session="short") == [(1, 5), (2, 4)]
    assert used(heard, PROMPT, session="long") == [(3, 6), (1, 5)]
    assert used(heard, PROMPT, session="new") == [(1, 5)]


def test_of_equal_prefixes_the_one_used_last_comes_first() -> None:
    """Entries of one vector and several origins are ordered by their use."""
    heard = Heard()
    heard.put(PROMPT[:5], origin=Origin.BOUNDARY)
    heard.put(PROMPT[:5], origin=Origin.COMPLETION)
    assert used(heard, PROMPT) == [(2, 5), (1, 5)]

    found = heard.find(PROMPT)
    heard.store.hit(found, found.candidates[1])
    assert used(heard, PROMPT) == [(1, 5), (2, 5)]


def test_the_whole_prompt_is_never_restored() -> None:
    """A replay of the very prompt is cut back by one token if it can be, else a shorter entry serves it."""
    heard = Heard(limits(supersede=False))
    heard.put(PROMPT[:4])
    heard.put(PROMPT[:5])
    assert used(heard, PROMPT[:5]) == [(1, 4)]

    heard.put(PROMPT[:5], cuts_from=0)
    assert used(heard, PROMPT[:5]) == [(1, 4), (3, 4)]


def test_a_stored_continuation_is_cut_back_to_the_request() -> None:
    """An entry longer than the request serves it up to its last token but one, if it can be cut."""
    heard = Heard()
    heard.put(PROMPT, cuts_from=0)

    assert used(heard, PROMPT[:9]) == [(1, 8)]


def test_a_diverging_entry_is_cut_back_to_the_common_prefix() -> None:
    """An entry that goes another way serves the part before it, if it can be cut back that far."""
    heard = Heard()
    heard.put([*PROMPT[:90], 999], cuts_from=90)
    assert used(heard, PROMPT) == [(1, 90)]
    assert used(heard, [*PROMPT[:89], 888, 777]) == []


def test_an_exact_candidate_goes_before_one_that_is_cut_to_the_same_length() -> None:
    """Where truncation gains nothing it comes second; where it gains a token it comes first."""
    heard = Heard(limits(supersede=False))
    heard.put(PROMPT[:5])
    heard.put([*PROMPT[:5], 999], cuts_from=0)
    assert used(heard, PROMPT) == [(1, 5), (2, 5)]

    heard.put([*PROMPT[:6], 999], cuts_from=0)
    assert used(heard, PROMPT) == [(3, 6), (1, 5)]


def test_an_ancestor_is_cut_back_where_its_continuation_cannot_be() -> None:
    """A sliding window that has wrapped since then can be had from the state before it wrapped."""
    heard = Heard(limits(keep_ancestors=1))
    heard.put(PROMPT[:40], cuts_from=0)
    heard.put(PROMPT[:90])
    assert used(heard, [*PROMPT[:30], 999]) == [(1, 30)]

    heard.put(PROMPT[:95], cuts_from=20)
    assert used(heard, [*PROMPT[:30], 999]) == [(3, 30)]


def test_the_candidate_that_shares_most_is_cut() -> None:
    """Of two entries that diverge the one that shares the longer prefix is the candidate."""
    heard = Heard()
    heard.put([*PROMPT[:70], 999], cuts_from=0)
    heard.put([*PROMPT[:50], 999], cuts_from=0)

    assert used(heard, PROMPT) == [(1, 70)]


@dataclass(frozen=True)
class Questioned:
    """A payload that remembers what it was asked and says no."""

    nbytes: int = 1
    arrays: int = 1
    asked: list[int] = field(default_factory=list)

    def can_truncate_to(self, n_tokens: int) -> bool:
        self.asked.append(n_tokens)
        return False


def test_truncation_is_asked_once_with_the_common_prefix() -> None:
    """The question is about the tokens that would be kept, not the tokens stored, and is put once."""
    store: SnapshotStore[Questioned] = SnapshotStore(limits(supersede=False))
    stored, longer = Questioned(), Questioned()
    for payload, tokens in ((longer, [*PROMPT[:70], 8, 9]), (stored, [*PROMPT[:70], 8])):
        store.insert(bucket=BUCKET, session="s", origin=Origin.BOUNDARY, tokens=pack(tokens), payload=payload)
        payload.asked.clear()
    found = store.find(bucket=BUCKET, session="s", tokens=pack(PROMPT))

    assert (found.candidates, found.reason, found.common_prefix_tokens) == ((), Miss.DIVERGED, 70)
    assert (stored.asked, longer.asked) == ([70], [])


# Why a request starts cold.


def why(heard: Heard, tokens: range | list[int], session: str | None = "s") -> tuple[Miss, int]:
    """The reason of a miss and the common prefix."""
    found = heard.find(tokens, session=session)
    assert found.candidates == ()
    return found.reason, found.common_prefix_tokens


def test_a_store_that_is_off_misses_as_disabled() -> None:
    """Off is the reason whatever else is so."""
    assert why(Heard(limits(enabled=False, min_prefix_tokens=9)), PROMPT[:3]) == (Miss.DISABLED, 0)


def test_a_request_too_short_to_be_served_misses_as_too_short() -> None:
    """A request no longer than the shortest prefix could not be served by any entry."""
    heard = Heard(limits(min_prefix_tokens=4))
    assert why(heard, PROMPT[:4]) == (Miss.TOO_SHORT, 0)
    assert why(heard, PROMPT[:5]) == (Miss.EMPTY, 0)


def test_a_store_without_entries_misses_as_empty() -> None:
    """Empty means that there is no entry at all, of whomever."""
    heard = Heard()
    assert why(heard, PROMPT) == (Miss.EMPTY, 0)
    heard.put([7], session="other")
    assert why(heard, PROMPT) == (Miss.NO_CANDIDATE, 0)


def test_entries_that_share_no_token_are_no_candidates() -> None:
    """Without a common first token, in this session and among shared entries, there is no candidate."""
    heard = Heard()
    heard.put([7, 8, 9])
    heard.put([7, 8], origin=Origin.SYSTEM)
    heard.put(PROMPT, session="other")

    assert why(heard, PROMPT) == (Miss.NO_CANDIDATE, 0)


def test_a_divergence_says_how_far_the_prefix_is_shared() -> None:
    """139 tokens are asked for and 90 shared: the miss is a divergence at 90."""
    heard = Heard()
    heard.put([*PROMPT[:90], 999])
    assert why(heard, PROMPT) == (Miss.DIVERGED, 90)


def test_a_longer_entry_that_cannot_be_cut_diverges_at_the_request_s_end() -> None:
    """A request of 25 tokens against a stored 40: all 25 are shared, and none can be had."""
    heard = Heard()
    heard.put(PROMPT[:40])
    assert why(heard, PROMPT[:25]) == (Miss.DIVERGED, 25)


def test_the_longest_common_prefix_is_reported_of_own_and_shared_entries() -> None:
    """The divergence is where the best of all entries in sight parts from the request."""
    heard = Heard()
    heard.put([*PROMPT[:10], 999])
    heard.put([*PROMPT[:20], 999], origin=Origin.SYSTEM)
    assert why(heard, PROMPT) == (Miss.DIVERGED, 20)


def test_a_shared_prefix_below_the_minimum_is_too_short_if_it_could_be_had() -> None:
    """What could be cut out but is not worth it is too short; what could not be cut out diverged."""
    heard = Heard(limits(min_prefix_tokens=16))
    heard.put([*PROMPT[:15], *range(900, 920)])
    assert why(heard, PROMPT) == (Miss.DIVERGED, 15)

    heard.put([*PROMPT[:15], *range(800, 820)], cuts_from=0)
    assert why(heard, PROMPT) == (Miss.TOO_SHORT, 15)


def test_the_same_words_under_another_template_are_incompatible() -> None:
    """What the session stored under other tools, template or media cannot be used, and is named as such."""
    heard = Heard(limits(min_prefix_tokens=16))
    tools = replace(BUCKET, template_signature="other tools")
    heard.put([*PROMPT[:16], 999], bucket=tools)
    assert why(heard, PROMPT) == (Miss.INCOMPATIBLE, 0)

    assert why(heard, [*PROMPT[:15], *range(800, 820)]) == (Miss.NO_CANDIDATE, 0)
    assert why(heard, PROMPT, session="other") == (Miss.NO_CANDIDATE, 0)


def test_candidates_that_all_fail_make_it_a_failed_restore() -> None:
    """A miss after candidates were found is not the store's: it says that they could not be restored."""
    heard = Heard()
    heard.put(PROMPT[:9])
    found = heard.find(PROMPT)

    assert heard.store.miss(found, failed_restores=1) is Miss.RESTORE_FAILED
    assert heard.events[-1] == LookupMissed(
        Miss.RESTORE_FAILED, prompt_tokens=139, common_prefix_tokens=9, failed_restores=1, tenant="acme"
    )


# What a lookup leaves behind.


def test_a_question_changes_and_counts_nothing() -> None:
    """Only `hit` and `miss` say that a lookup was made."""
    heard = Heard(limits(supersede=False))
    heard.put(PROMPT[:3])
    heard.put(PROMPT[:5])
    before = heard.tally.read()
    heard.find(PROMPT)
    heard.find(PROMPT[:4])

    assert heard.tally.read() == before
    assert heard.held == [1, 2]


def test_a_hit_is_counted_with_what_was_restored() -> None:
    """A hit names the entry that was restored, how much of it, and how long it had waited."""
    heard = Heard(limits(supersede=False))
    heard.put(PROMPT[:3])
    heard.put(PROMPT[:5])
    heard.clock.advance(60)
    found = heard.find(PROMPT)
    heard.store.hit(found, found.candidates[1], failed_restores=1)

    hit = heard.events[-1]
    assert hit == LookupHit(
        found.candidates[1].entry, prompt_tokens=139, reused_tokens=3, reuse_gap_seconds=60, failed_restores=1
    )
    assert isinstance(hit, LookupHit)
    assert not hit.truncated
    assert heard.held == [2, 1]


def test_a_truncated_hit_says_so() -> None:
    """A hit that reuses less than the entry describes is truncated."""
    heard = Heard()
    heard.put(PROMPT, cuts_from=0)

    assert heard.use(PROMPT[:9]) == 8
    hit = heard.events[-1]
    assert isinstance(hit, LookupHit)
    assert (hit.truncated, hit.entry.tokens, hit.reused_tokens) == (True, 139, 8)


def test_a_hit_on_an_entry_that_is_gone_is_still_a_hit() -> None:
    """The state was restored before its entry went; the store holds no more than before."""
    heard = Heard()
    heard.put(PROMPT[:9])
    found = heard.find(PROMPT)
    heard.store.clear()
    heard.store.hit(found, found.candidates[0])

    assert isinstance(heard.events[-1], LookupHit)
    assert heard.held == []


@pytest.mark.parametrize("reason", [Miss.OPTED_OUT])
def test_a_request_that_did_not_look_is_counted_under_its_own_reason(reason: Miss) -> None:
    """A skipped lookup is neither a hit nor a miss of the store."""
    heard = Heard()
    heard.store.skip(reason, prompt_tokens=12)

    assert heard.events == [LookupMissed(reason, 12, common_prefix_tokens=0, failed_restores=0)]
