"""Whether a snapshot may enter the store, or why not. It asks and never acts."""

from typing import Any, NamedTuple

from app.events import EntryFacts
from app.snapshots.holdings import Holdings
from app.snapshots.limits import Limits
from app.vocabulary import Rejection


class Verdict(NamedTuple):
    """`reason`: None lets it in. `remembered`: a larger store with the same quotas would have taken it."""

    reason: Rejection | None
    remembered: bool = False


def verdict(
    facts: EntryFacts, *, limits: Limits, held: Holdings[Any], quota: int | None, tentative: bool
) -> Verdict:
    """What becomes of a snapshot; the first reason that holds.

    Args:
        facts: of the snapshot.
        limits: of the store.
        held: what is in it.
        quota: the most bytes of the snapshot's tenant.
        tentative: whether it is a guess, which costs nobody a place.
    """
    own = quota is None or facts.nbytes <= quota
    reason = limits.rejection(facts.tokens, facts.nbytes, facts.arrays)
    if reason is None and not own:
        reason = Rejection.OVERSIZED
    if reason is not None:
        return Verdict(reason, remembered=own and reason is Rejection.OVERSIZED)
    if not tentative:
        return Verdict(None)
    own = quota is None or held.of(facts.tenant).nbytes + facts.nbytes <= quota
    totals = (len(held) + 1, held.nbytes + facts.nbytes, held.arrays + facts.arrays)
    if own and limits.exceeded(*totals) is None:
        return Verdict(None)
    return Verdict(Rejection.LOW_MEMORY, remembered=own)
