"""What one tenant has in the store: its bytes, and its entries in the order in which they would leave."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Generic

from app.snapshots.entry import Entry, P, Standing

Quota = Callable[[str], int | None]
"""Tenant → the most bytes it may hold, at least 1; None: as many as there are. Asked anew at each insert."""


def no_quota(_tenant: str) -> int | None:
    """Nobody is limited but by the store."""
    return None


class Share(Generic[P]):
    """The entries of one tenant, in lines as `Holdings` has them for all. Its owner has the lock."""

    def __init__(self) -> None:
        self.nbytes = 0
        self._lines: dict[Standing, OrderedDict[int, Entry[P]]] = {
            standing: OrderedDict() for standing in Standing
        }

    def __bool__(self) -> bool:
        return any(self._lines.values())

    def __iter__(self) -> Iterator[Entry[P]]:
        """In the order of leaving."""
        return chain.from_iterable(line.values() for line in self._lines.values())

    def line_up(self, entry: Entry[P]) -> None:
        """Put `entry` at the end of its standing's line."""
        self._lines[entry.standing][entry.facts.id] = entry
        self.nbytes += entry.facts.nbytes

    def leave_line(self, entry: Entry[P]) -> None:
        """Take `entry` out of its standing's line."""
        del self._lines[entry.standing][entry.facts.id]
        self.nbytes -= entry.facts.nbytes
