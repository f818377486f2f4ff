"""What a request may start from, best first, and why it would start cold. Pure questions to the index."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic

from app.events import EntryFacts
from app.snapshots.entry import Bucket, Entry, P, TokenBytes, token_count
from app.snapshots.index import Index
from app.snapshots.limits import Limits
from app.snapshots.tree import Walk
from app.vocabulary import Growth, Miss


@dataclass(frozen=True, slots=True)
class Candidate(Generic[P]):
    """A stored state that a request may start from, once it is restored at `use_tokens` tokens.

    `use_tokens` below `entry.tokens` means that the state has to be truncated, which its payload said it
    can be. `last_used` is that of the entry when it was found.
    """

    payload: P
    use_tokens: int
    entry: EntryFacts
    last_used: float


@dataclass(frozen=True, slots=True)
class Found(Generic[P]):
    """The answer to a lookup: candidates, best first, and what a miss would be called.

    `common_prefix_tokens`: the longest prefix that any entry the request may use shares with it, in whole
    tokens. `started` and `ended` are times of the store's clock. `growth`: the least with which more tokens
    than the best candidate's could be reused; None: no more memory would help.

    `reason` is, the first that holds:
        `disabled`: the store is off.
        `too_short`: the request is not longer than `min_prefix_tokens`, so nothing could serve it.
        `empty`: the tenant has no entry at all; what others have is not for it to know.
        `restore_failed`: there are candidates, so a miss means that none could be restored.
        `incompatible`: nothing shares even the first token, but the bucket of the same tenant that this
            session inserted into last, other than this one, shares at least `min_prefix_tokens`.
        `no_candidate`: nothing shares even the first token.
        `too_short`: all that is shared is shorter than `min_prefix_tokens`, and could be had.
        `diverged`: entries share `common_prefix_tokens`, but no state of that prefix can be had.
    """

    candidates: tuple[Candidate[P], ...]
    reason: Miss
    common_prefix_tokens: int
    prompt_tokens: int
    tokens: TokenBytes
    started: float
    ended: float
    growth: Growth | None = None
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class _Ranked(Generic[P]):
    entry: Entry[P]
    use_tokens: int

    def rank(self) -> tuple[int, bool, int]:
        """More tokens, then no truncation, then used later."""
        return (self.use_tokens, self.use_tokens == self.entry.facts.tokens, self.entry.used)


def look_up(
    index: Index[P], limits: Limits, *, bucket: Bucket, session: str | None, tokens: TokenBytes
) -> tuple[tuple[Candidate[P], ...], Miss, int]:
    """The candidates, the reason of a miss and the common prefix, as `Found` defines them.

    Every strict prefix of the request is a candidate. The entries that diverge last from it would have to
    be truncated: among the session's own and among the shared ones, the most recently used is asked whether
    it can be, and then the shortest that it continues, because a window that has wrapped had not yet wrapped
    there. At least one token is always left to run, because the model needs an input to predict from.
    """
    walks = (index.own(bucket, session, tokens), index.shared(bucket, tokens))
    usable = [ranked for walk in walks for ranked in _usable(walk, token_count(tokens) - 1)]
    ranked = sorted(
        (each for each in usable if each.use_tokens >= limits.min_prefix_tokens),
        key=_Ranked.rank,
        reverse=True,
    )
    common = max(walk.common_tokens for walk in walks)
    if ranked:
        reason = Miss.RESTORE_FAILED
    elif common == 0:
        elsewhere = index.elsewhere(bucket, session, tokens)
        reason = Miss.INCOMPATIBLE if elsewhere >= limits.min_prefix_tokens else Miss.NO_CANDIDATE
    elif usable and common < limits.min_prefix_tokens:
        reason = Miss.TOO_SHORT
    else:
        reason = Miss.DIVERGED
    candidates = tuple(
        Candidate(each.entry.payload, each.use_tokens, each.entry.facts, each.entry.last_used)
        for each in ranked
    )
    return candidates, reason, common


def _usable(walk: Walk[P], most_tokens: int) -> Iterator[_Ranked[P]]:
    for entry in walk.prefixes:
        yield _Ranked(entry, entry.facts.tokens)
    use_tokens = min(walk.common_tokens, most_tokens)
    for entry in walk.beyond:
        if entry.payload.can_truncate_to(use_tokens):
            yield _Ranked(entry, use_tokens)
            return
