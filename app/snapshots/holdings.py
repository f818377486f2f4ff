"""The entries held: their order of use, their index and their totals, kept in step. It decides nothing."""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Generic

from app.events import EntryFacts, Occupancy, Origin
from app.snapshots.entry import Entry, P, TokenBytes
from app.snapshots.index import Index


class Holdings(Generic[P]):
    """Every entry in three views that must agree. Not thread-safe: its owner has the lock.

    The order of use is the order of expiry too, because every use sets `last_used` to a clock that never
    goes back.
    """

    def __init__(self) -> None:
        self.index: Index[P] = Index()
        self.nbytes = 0
        self.arrays = 0
        self._entries: OrderedDict[int, Entry[P]] = OrderedDict()
        self._by_origin = dict.fromkeys(Origin, (0, 0))
        self._uses = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry[P]]:
        """The least recently used first."""
        return iter(self._entries.values())

    def get(self, entry_id: int) -> Entry[P] | None:
        """The entry of that id, if it is still held."""
        return self._entries.get(entry_id)

    def add(self, entry: Entry[P], tokens: TokenBytes) -> None:
        """Hold `entry` under `tokens`, as the most recently used."""
        self._uses += 1
        entry.used = self._uses
        self._entries[entry.facts.id] = entry
        self.index.add(entry, tokens)
        self._book(entry.facts, 1)

    def use(self, entry: Entry[P], now: float) -> None:
        """Make `entry` the most recently used; its time to live starts again."""
        self._uses += 1
        entry.used = self._uses
        entry.last_used = now
        entry.hits += 1
        self._entries.move_to_end(entry.facts.id)
        self.index.touch(entry)

    def remove(self, entry: Entry[P]) -> None:
        """Let go of `entry`; nothing here refers to its payload after that."""
        del self._entries[entry.facts.id]
        self.index.remove(entry)
        self._book(entry.facts, -1)

    def occupancy(self) -> Occupancy:
        """The totals now, as a value."""
        return Occupancy(len(self), self.nbytes, self.arrays, dict(self._by_origin))

    def _book(self, facts: EntryFacts, sign: int) -> None:
        entries, nbytes = self._by_origin[facts.origin]
        self._by_origin[facts.origin] = (entries + sign, nbytes + sign * facts.nbytes)
        self.nbytes += sign * facts.nbytes
        self.arrays += sign * facts.arrays
