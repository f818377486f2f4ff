"""Whose place a new entry takes: what it stands in for, and who makes room. It decides and never acts."""

from collections.abc import Iterable
from typing import Any, Generic, NamedTuple

from app.snapshots.entry import Entry, P, Standing
from app.snapshots.holdings import Holdings
from app.snapshots.tree import Walk
from app.vocabulary import Origin


class Superseded(NamedTuple, Generic[P]):
    """An entry whose place another takes. `contained`: that one can be cut back to it."""

    entry: Entry[P]
    contained: bool


def superseded_by(newcomer: Entry[Any], walk: Walk[P]) -> list[Superseded[P]]:
    """The strict prefixes in the newcomer's session that it can stand in for; shortest first.

    It can for one of its own origin, which a later turn asks for no more. For one of another origin its
    state must be truncatable to it: a completion that cannot be cut back is of no use to a client that
    sends the reply back in other words, and the boundary before that reply is.
    """
    if newcomer.facts.session is None:
        return []
    prefixes = [Superseded(old, newcomer.payload.can_truncate_to(old.facts.tokens)) for old in walk.prefixes]
    return [each for each in prefixes if each.contained or each.entry.facts.origin is newcomer.facts.origin]


def becoming_kept(superseded: list[Superseded[P]], most: int) -> list[Entry[P]]:
    """Those that stay as ancestors although superseded: the `most` longest of the live boundaries.

    Not what the newcomer can be cut back to, because it serves whatever they could; and no completion,
    because what is edited is a message, and a boundary is where the one before it ends.
    """
    boundaries = [
        old
        for old, contained in superseded
        if old.facts.origin is Origin.BOUNDARY and not contained and old.standing is Standing.LIVE
    ]
    return boundaries[max(0, len(boundaries) - most) :]


def turn_boundary(newcomer: Entry[P], walk: Walk[P], held: Holdings[P]) -> Entry[P] | None:
    """The newest live boundary still held that the newcomer continues: the state before its own reply."""
    if newcomer.facts.session is None:
        return None
    boundaries = (
        old
        for old in walk.prefixes
        if old.facts.origin is Origin.BOUNDARY
        and old.standing is Standing.LIVE
        and held.get(old.facts.id) is not None
    )
    return max(boundaries, key=lambda old: old.facts.id, default=None)


def next_victim(leaving: Iterable[Entry[P]], newcomer: Entry[P], boundary: Entry[P] | None) -> Entry[P]:
    """The first to leave; `boundary` only when no other live entry but the newcomer is left beside it.

    `leaving`: who may have to, in that order, the newcomer among them.

    The newcomer is never chosen: what does not fit alone is rejected before it is held.
    """
    others = (entry for entry in leaving if entry is not newcomer)
    first = next(others)
    if first is not boundary:
        return first
    second = next(others, first)
    return second if second.standing is first.standing else first


def standing_after_use(entry: Entry[P], *, whole: bool) -> Standing:
    """What a hit makes of an entry. Only one that was restored whole is raised by it.

    The state a request was cut out of is not the one that it goes on from. And where the date stands in a
    system prompt, each day's would raise the last one's, though nobody will ever ask for that again.
    """
    if not whole:
        return entry.standing
    return Standing.ANCHOR if entry.facts.origin is Origin.SYSTEM else Standing.LIVE


def same_session(one: Entry[P], other: Entry[P]) -> bool:
    """Whether both belong to one session of one bucket; what has no session belongs to none."""
    session = one.facts.session
    return session is not None and session == other.facts.session and one.bucket == other.bucket
