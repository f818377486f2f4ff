"""What would still be here in a larger store: entries that had to go, remembered by tokens and size alone.

It answers what more memory would have changed. It holds no model state, and decides nothing in the store.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Generic, NamedTuple

from app.snapshots.census import Census
from app.snapshots.entry import BYTES_PER_TOKEN, Bucket, Entry, P, TokenBytes
from app.snapshots.index import Index
from app.snapshots.limits import Limits
from app.snapshots.lookup import look_up
from app.snapshots.succession import superseded_by
from app.vocabulary import Growth

FACTORS = {Growth.HALF_MORE: Fraction(3, 2), Growth.DOUBLE: Fraction(2), Growth.FOURFOLD: Fraction(4)}
"""Ascending: what a larger store holds, every larger one holds as well."""

_BANDS: tuple[Growth | None, ...] = (*FACTORS, None)
"""The last is what only a store without a limit on its bytes would hold: it tells how much is wanted."""

_NO_LIMIT_BYTES = 2**62

MAX_TOKEN_BYTES = 64 * 2**20
"""Of all token vectors together: 16 million tokens, which are some gigabytes of most models' state."""


@dataclass(frozen=True, slots=True)
class Shell:
    """What is left of a payload: its size, and whether the state could be cut back."""

    n_tokens: int
    nbytes: int
    arrays: int
    cuts: bool

    def can_truncate_to(self, n_tokens: int) -> bool:
        """As the payload would have answered, if it could be cut back either anywhere or nowhere."""
        return n_tokens == self.n_tokens or (self.cuts and 0 < n_tokens < self.n_tokens)


class _Totals(NamedTuple):
    """Of some entries. Added up field by field."""

    entries: int
    nbytes: int
    arrays: int

    def plus(self, other: "_Totals") -> "_Totals":
        return _Totals(*(one + another for one, another in zip(self, other, strict=True)))


class Ghosts(Generic[P]):
    """Entries that left for want of room, in bands: what only the next larger store would still hold.

    A store of k times the capacity holds what is really held and the bands up to k, in the same order of
    leaving. So its own least recently used ghost leaves a band for the next when that no longer fits: the
    bands are those stores, without their being run. The last band holds the rest, as far as other limits
    and the bound on tokens go. Not thread-safe: its owner has the lock.

    Args:
        limits: of the real store; the larger ones have the same, but for the capacity.
        census: told whom each ghost belongs to.
    """

    def __init__(self, limits: Limits, census: Census) -> None:
        self.set_limits(limits)
        self._census = census
        self._index: Index[Shell] = Index()
        self._bands: dict[Growth | None, OrderedDict[int, Entry[Shell]]] = {
            growth: OrderedDict() for growth in _BANDS
        }
        self._totals = dict.fromkeys(_BANDS, _Totals(0, 0, 0))
        # tenant → its ghosts, the one that left first first.
        self._of_tenant: dict[str, dict[int, Entry[Shell]]] = {}
        self._tenant_bytes: Counter[str] = Counter()
        self._token_bytes = 0

    @property
    def nbytes(self) -> int:
        """What the ghosts would weigh, if they were held."""
        return sum(totals.nbytes for totals in self._totals.values())

    def set_limits(self, limits: Limits) -> None:
        """The real store has other limits from now on."""
        self._limits = limits
        self._larger: dict[Growth | None, Limits] = {
            growth: replace(limits, capacity_bytes=int(limits.capacity_bytes * factor))
            for growth, factor in FACTORS.items()
        }
        self._larger[None] = replace(limits, capacity_bytes=_NO_LIMIT_BYTES)

    def remember(self, entry: Entry[P], tokens: TokenBytes) -> None:
        """An entry of exactly `tokens` had to go, or found no room; only a larger store would hold it."""
        facts = entry.facts
        ghost = Entry(
            facts,
            entry.bucket,
            Shell(facts.tokens, facts.nbytes, facts.arrays, entry.cuts),
            entry.created,
            entry.inserted_by,
            entry.last_used,
            tentative=entry.tentative,
            cuts=entry.cuts,
        )
        for equal in self._index.around(ghost, tokens).equal:
            if equal.facts.origin is facts.origin:
                self.forget(equal.facts.id)
        self._index.add(ghost, tokens)
        self._census.add(ghost)
        self._of_tenant.setdefault(ghost.bucket.tenant, {})[facts.id] = ghost
        self._tenant_bytes[ghost.bucket.tenant] += facts.nbytes
        self._token_bytes += facts.tokens * BYTES_PER_TOKEN
        self._enter(_BANDS[0], ghost)

    def make_way(self, newcomer: Entry[P], tokens: TokenBytes) -> list[int]:
        """Forget what `newcomer` would have replaced or superseded; the ids of the latter."""
        walk = self._index.around(newcomer, tokens)
        equal = [old for old in walk.equal if old.facts.origin is newcomer.facts.origin]
        superseded = []
        if self._limits.supersede and not newcomer.tentative:
            superseded = [old for old, _ in superseded_by(newcomer, walk)]
        for old in (*equal, *superseded):
            self.forget(old.facts.id)
        return [old.facts.id for old in superseded]

    def forget(self, entry_id: int) -> None:
        """No store would hold that entry any more; one that is no ghost is none afterwards either."""
        for growth, band in self._bands.items():
            if entry_id in band:
                self._drop(self._leave(growth, entry_id))

    def clear(self, tenant: str | None = None) -> None:
        """Forget everything, or all of one tenant."""
        for ghost in list(self._all() if tenant is None else self._of_tenant.get(tenant, {}).values()):
            self.forget(ghost.facts.id)

    def forget_session(self, tenant: str, session: str) -> None:
        """Forget all of one session."""
        for ghost in self._index.of_session(tenant, session):
            self.forget(ghost.facts.id)

    def fit(self, tenant: str, nbytes: int) -> None:
        """Forget a tenant's ghosts, the oldest first, until they weigh at most `nbytes`."""
        while self._tenant_bytes[tenant] > max(nbytes, 0):
            self.forget(next(iter(self._of_tenant[tenant])))

    def reach(
        self, *, bucket: Bucket, session: str | None, tokens: TokenBytes, more_than: int, now: float
    ) -> Growth | None:
        """The least growth with which a request would find a state of more than `more_than` of its tokens."""
        if not any(self._bands.values()):
            return None
        candidates, _, _ = look_up(self._index, self._limits, bucket=bucket, session=session, tokens=tokens)
        fit = {
            candidate.entry.id
            for candidate in candidates
            if candidate.use_tokens > more_than and not self._limits.expired(now - candidate.last_used)
        }
        # Of what only the last band has, the answer is that no growth we speak of would do.
        return next((growth for growth, band in self._bands.items() if not fit.isdisjoint(band)), None)

    def settle(self, entries: int, nbytes: int, arrays: int, now: float) -> None:
        """Let go of what has expired, and move on what the larger stores no longer hold.

        Args:
            entries: how many are really held.
            nbytes: their bytes.
            arrays: their device arrays.
            now: on the clock.
        """
        within = _Totals(entries, nbytes, arrays)
        for place, growth in enumerate(_BANDS):
            band = self._bands[growth]
            while band and self._limits.expired(now - next(iter(band.values())).last_used):
                self._drop(self._leave(growth, next(iter(band))))
            while band and self._larger[growth].exceeded(*within.plus(self._totals[growth])) is not None:
                ghost = self._leave(growth, next(iter(band)))
                if growth is None:
                    self._drop(ghost)
                else:
                    self._enter(_BANDS[place + 1], ghost)
            within = within.plus(self._totals[growth])
        while self._token_bytes > MAX_TOKEN_BYTES:
            # The largest store's band comes last, and in a band the least recently used first.
            growth = next(growth for growth in reversed(_BANDS) if self._bands[growth])
            self._drop(self._leave(growth, next(iter(self._bands[growth]))))

    def _all(self) -> Iterator[Entry[Shell]]:
        for band in self._bands.values():
            yield from band.values()

    def _enter(self, growth: Growth | None, ghost: Entry[Shell]) -> None:
        self._bands[growth][ghost.facts.id] = ghost
        self._totals[growth] = self._totals[growth].plus(_Totals(1, ghost.facts.nbytes, ghost.facts.arrays))

    def _leave(self, growth: Growth | None, entry_id: int) -> Entry[Shell]:
        ghost = self._bands[growth].pop(entry_id)
        less = _Totals(-1, -ghost.facts.nbytes, -ghost.facts.arrays)
        self._totals[growth] = self._totals[growth].plus(less)
        return ghost

    def _drop(self, ghost: Entry[Shell]) -> None:
        self._index.remove(ghost)
        self._census.remove(ghost)
        tenant = ghost.bucket.tenant
        del self._of_tenant[tenant][ghost.facts.id]
        self._tenant_bytes[tenant] -= ghost.facts.nbytes
        if not self._of_tenant[tenant]:
            del self._of_tenant[tenant], self._tenant_bytes[tenant]
        self._token_bytes -= ghost.facts.tokens * BYTES_PER_TOKEN
