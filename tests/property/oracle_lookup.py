"""What a lookup should find, by scanning every row and comparing token by token."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.events import EntryFacts
from app.snapshots.entry import Bucket
from app.snapshots.limits import Limits
from app.vocabulary import Miss, Origin
from tests.property.oracle_rows import Row, Rows, Tokens, shared_tokens


@dataclass(frozen=True)
class Answer:
    """What a lookup should find: (entry facts, tokens to restore, last use), best first."""

    candidates: tuple[tuple[EntryFacts, int, float], ...]
    reason: Miss
    common_prefix_tokens: int
    prompt_tokens: int
    at: float
    tenant: str


def asked_to_be_cut(beyond: list[Row]) -> list[Row]:
    """Of rows in the order of their use: the last one, and the shortest that it continues."""
    begun = [row for row in reversed(beyond) if row.begins(beyond[-1].tokens)]
    return [*beyond[-1:], *sorted(begun, key=lambda row: len(row.tokens))[:1]]


def look(
    held: Rows,
    limits: Limits,
    inserted_into: Sequence[tuple[Bucket, str | None]],
    asked: tuple[Bucket, str | None, Tokens],
    now: float,
) -> Answer:
    """What may be started from, best first, and why a request that is `asked` would start cold.

    `inserted_into`: where inserts went, in order.
    """
    bucket, session, tokens = asked
    candidates: list[tuple[int, bool, int, Row]] = []
    common = 0
    cut_short = False
    minimum = limits.min_prefix_tokens
    if not limits.enabled:
        reason = Miss.DISABLED
    elif len(tokens) <= minimum:
        reason = Miss.TOO_SHORT
    elif not held.of_tenant(bucket.tenant):
        reason = Miss.EMPTY
    else:
        own = [r for r in held.of(bucket, session) if r.origin is not Origin.SYSTEM]
        system = [r for r in held.rows if r.bucket == bucket and r.origin is Origin.SYSTEM]
        for group in (own, system):
            deepest = max((shared_tokens(r.tokens, tokens) for r in group), default=0)
            common = max(common, deepest)
            candidates += [(len(r.tokens), True, held.rows.index(r), r) for r in group if r.begins(tokens)]
            beyond = [
                r
                for r in group
                if deepest and shared_tokens(r.tokens, tokens) == deepest and not r.begins(tokens)
            ]
            length = min(deepest, len(tokens) - 1)
            for row in [row for row in asked_to_be_cut(beyond) if row.payload.can_truncate_to(length)][:1]:
                if length >= minimum:
                    candidates.append((length, False, held.rows.index(row), row))
                else:
                    cut_short = True
        reason = _why(held, minimum, inserted_into, asked, common, cut_short=cut_short)
        if candidates:
            reason = Miss.RESTORE_FAILED
    candidates.sort(key=lambda each: each[:3], reverse=True)
    found = tuple((row.facts(), length, row.last_used) for length, _, _, row in candidates)
    return Answer(found, reason, common, len(tokens), now, bucket.tenant)


def _why(
    held: Rows,
    minimum: int,
    inserted_into: Sequence[tuple[Bucket, str | None]],
    asked: tuple[Bucket, str | None, Tokens],
    common: int,
    *,
    cut_short: bool,
) -> Miss:
    bucket, session, tokens = asked
    if common > 0:
        return Miss.TOO_SHORT if cut_short and common < minimum else Miss.DIVERGED
    for other, its_session in reversed(inserted_into):
        there = held.of(other, session)
        same = session is not None and its_session == session and other.tenant == bucket.tenant
        if same and other != bucket and there:
            if max(shared_tokens(row.tokens, tokens) for row in there) >= minimum:
                return Miss.INCOMPATIBLE
            break
    return Miss.NO_CANDIDATE
