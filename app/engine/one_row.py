"""Lets caches that mlx-lm cannot merge go through its batch generator, one row at a time.

The generator asks every cache to merge, filter and extract rows. For a batch of exactly one row these are
all the cache itself; a second row is refused.
"""

import copy
from collections.abc import Sequence
from functools import cache as memoised
from typing import Any

from mlx_lm.models.cache import CacheList

Cache = Any


class _OneRow:
    """The batch methods of mlx-lm's caches, for a batch of one."""

    def merge(self, caches: Sequence[Cache]) -> Cache:
        if len(caches) != 1:
            raise ValueError(f"{type(self).__name__} holds one row; {len(caches)} cannot be merged")
        return caches[0]

    def extend(self, _other: Cache) -> None:
        raise ValueError(f"{type(self).__name__} holds one row; no other can be added to it")

    def filter(self, rows: Sequence[int]) -> None:
        if list(rows) != [0]:
            raise ValueError(f"{type(self).__name__} holds row 0 only, not rows {list(rows)}")

    def extract(self, row: int) -> Cache:
        """Row 0 as an ordinary cache. A deep copy of mlx arrays shares their buffers."""
        self.filter([row])
        plain = copy.deepcopy(self)
        plain.__class__ = type(self).__mro__[2]
        return plain


@memoised
def _one_row_class(kind: type) -> type:
    return type(f"OneRow{kind.__name__}", (_OneRow, kind), {})


def as_one_row(caches: Sequence[Cache]) -> list[Cache]:
    """The same caches, all made fit for a batch of one row.

    All of them, not only those that cannot be merged: such a model may reckon with plain positions in the
    others too, where a merged cache has an array.
    """
    for cache in caches:
        if isinstance(cache, CacheList):
            as_one_row(cache.caches)
        else:
            kind: Any = type(cache)
            cache.__class__ = _one_row_class(kind)
    return list(caches)
