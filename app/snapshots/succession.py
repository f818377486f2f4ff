"""Whose place a new entry takes: what it stands in for, and who makes room. It decides and never acts."""

from app.events import Origin
from app.snapshots.entry import Entry, P
from app.snapshots.holdings import Holdings
from app.snapshots.tree import Walk


def superseded_by(newcomer: Entry[P], walk: Walk[P]) -> list[Entry[P]]:
    """The strict prefixes in the newcomer's session that it can stand in for; shortest first.

    It can for one of its own origin, which a later turn asks for no more. For one of another origin its
    state must be truncatable to it: a completion that cannot be cut back is of no use to a client that
    sends the reply back in other words, and the boundary before that reply is.
    """
    if newcomer.facts.session is None:
        return []
    return [
        old
        for old in walk.prefixes
        if old.facts.origin is newcomer.facts.origin or newcomer.payload.can_truncate_to(old.facts.tokens)
    ]


def turn_boundary(newcomer: Entry[P], walk: Walk[P], held: Holdings[P]) -> Entry[P] | None:
    """The newest boundary still held that the newcomer continues: the state before its own reply."""
    if newcomer.facts.session is None:
        return None
    boundaries = (
        old
        for old in walk.prefixes
        if old.facts.origin is Origin.BOUNDARY and held.get(old.facts.id) is not None
    )
    return max(boundaries, key=lambda old: old.facts.id, default=None)


def next_victim(held: Holdings[P], newcomer: Entry[P], boundary: Entry[P] | None) -> Entry[P]:
    """The least recently used entry; `boundary` only when nothing but the newcomer is left beside it.

    The newcomer is never chosen: what does not fit alone is rejected before it is held.
    """
    others = (entry for entry in held if entry is not newcomer)
    first = next(others)
    return next(others, first) if first is boundary else first


def same_session(one: Entry[P], other: Entry[P]) -> bool:
    """Whether both belong to one session of one bucket; what has no session belongs to none."""
    session = one.facts.session
    return session is not None and session == other.facts.session and one.bucket == other.bucket
