"""The entries held: their order of leaving, their index and totals, kept in step. It decides nothing."""

from collections import OrderedDict
from collections.abc import Iterator
from itertools import chain, islice
from typing import Generic

from app.events import EntryFacts, Occupancy
from app.snapshots.census import Census
from app.snapshots.entry import Bucket, Entry, P, Standing, TokenBytes
from app.snapshots.index import Index
from app.snapshots.share import Share
from app.vocabulary import Origin


class Holdings(Generic[P]):
    """Every entry in three views that must agree. Not thread-safe: its owner has the lock.

    Entries of each standing stand in a line of their own. Within a line the order of use is the order of
    expiry too, because all that moves an entry to a line's end sets `last_used` to a clock that never goes
    back. So the next to leave and the next to expire are at the head of a line.

    Args:
        census: told of every entry that comes and goes.
    """

    def __init__(self, census: Census) -> None:
        self._census = census
        self.index: Index[P] = Index()
        self.nbytes = 0
        self.arrays = 0
        self._lines: dict[Standing, OrderedDict[int, Entry[P]]] = {
            standing: OrderedDict() for standing in Standing
        }
        # bucket and session → its kept entries, in the order of their line.
        self._kept: dict[tuple[Bucket, str | None], dict[int, Entry[P]]] = {}
        # Only tenants that hold something are in it.
        self._shares: dict[str, Share[P]] = {}
        self._by_origin = dict.fromkeys(Origin, (0, 0))
        self._uses = 0

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def __iter__(self) -> Iterator[Entry[P]]:
        """In the order of leaving: by standing, and of each the least recently used first."""
        return chain.from_iterable(line.values() for line in self._lines.values())

    def first(self, standing: Standing) -> Entry[P] | None:
        """The least recently used entry of that standing."""
        return next(iter(self._lines[standing].values()), None)

    def of(self, tenant: str) -> Share[P]:
        """What that tenant holds; not to be kept."""
        return self._shares.get(tenant) or Share()

    def get(self, entry_id: int) -> Entry[P] | None:
        """The entry of that id, if it is still held."""
        return next((line[entry_id] for line in self._lines.values() if entry_id in line), None)

    def kept(self, bucket: Bucket, session: str | None) -> list[Entry[P]]:
        """The session's entries that are superseded and kept, the oldest first."""
        return list(self._kept.get((bucket, session), {}).values())

    def add(self, entry: Entry[P], tokens: TokenBytes) -> None:
        """Hold `entry` under `tokens`, as the most recently used."""
        self._line_up(entry)
        self.index.add(entry, tokens)
        self._census.add(entry)
        self._book(entry.facts, 1)

    def use(self, entry: Entry[P], now: float, standing: Standing) -> None:
        """Make `entry` the most recently used of `standing`; its time to live starts again."""
        self._move(entry, now, standing)
        entry.hits += 1
        self.index.touch(entry)

    def keep(self, entry: Entry[P], now: float) -> None:
        """Let `entry` be `KEPT` from now on: its time to live starts again, and its session has it listed.

        Its branch of the index is not touched: what supersedes it is used in the same breath.
        """
        self._move(entry, now, Standing.KEPT)

    def remove(self, entry: Entry[P]) -> None:
        """Let go of `entry`; nothing here refers to its payload after that."""
        self._leave_line(entry)
        self.index.remove(entry)
        self._census.remove(entry)
        self._book(entry.facts, -1)

    def occupancy(self) -> Occupancy:
        """The totals now, as a value."""
        oldest = [entry.last_used for line in self._lines.values() for entry in islice(line.values(), 1)]
        return Occupancy(
            len(self),
            self.nbytes,
            self.arrays,
            dict(self._by_origin),
            oldest_used=min(oldest, default=None),
        )

    def _move(self, entry: Entry[P], now: float, standing: Standing) -> None:
        self._leave_line(entry)
        entry.last_used = now
        entry.standing = standing
        self._line_up(entry)

    def _line_up(self, entry: Entry[P]) -> None:
        self._uses += 1
        entry.used = self._uses
        self._lines[entry.standing][entry.facts.id] = entry
        self._shares.setdefault(entry.bucket.tenant, Share()).line_up(entry)
        if entry.standing is Standing.KEPT:
            self._kept.setdefault((entry.bucket, entry.facts.session), {})[entry.facts.id] = entry

    def _leave_line(self, entry: Entry[P]) -> None:
        del self._lines[entry.standing][entry.facts.id]
        share = self._shares[entry.bucket.tenant]
        share.leave_line(entry)
        if not share:
            del self._shares[entry.bucket.tenant]
        if entry.standing is Standing.KEPT:
            place = (entry.bucket, entry.facts.session)
            del self._kept[place][entry.facts.id]
            if not self._kept[place]:
                del self._kept[place]

    def _book(self, facts: EntryFacts, sign: int) -> None:
        entries, nbytes = self._by_origin[facts.origin]
        self._by_origin[facts.origin] = (entries + sign, nbytes + sign * facts.nbytes)
        self.nbytes += sign * facts.nbytes
        self.arrays += sign * facts.arrays
