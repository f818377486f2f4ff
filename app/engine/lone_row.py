"""Keys and values of a row that is alone in its batch, without a copy, a mask or a gather of them.

mlx-lm's batches are made for rows of unequal length. A row alone pays for it too: its state is copied into
new buffers as it enters the batch and gathered into others before its first token, and it is masked by an
array, though nothing is padded, for which not every backend has a fused attention.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from mlx_lm.models.cache import BatchKVCache, CacheList, KVCache, create_attention_mask

Cache = Any

_PLAIN: Mapping[str, Any] = {"return_array": False, "window_size": None}
"""What models ask for that say nothing of it."""


class LoneRowKVCache(KVCache):  # type: ignore[misc]
    """A `KVCache` on its way into a batch: merged with no other, its buffers become the batch's."""

    @classmethod
    def merge(cls, caches: Sequence[KVCache]) -> Cache:
        """A batch of these rows. A row that comes alone is used up by it: both have the same arrays."""
        if len(caches) > 1 or caches[0].keys is None:
            batch = BatchKVCache.merge(caches)
            batch.__class__ = LoneRowBatch
            return batch
        (row,) = caches
        batch = LoneRowBatch([0])
        batch.keys, batch.values = row.keys, row.values
        batch.offset = batch.offset + row.offset
        batch._idx = row.offset  # noqa: SLF001 - as mlx-lm's own merge does
        return batch


class LoneRowBatch(BatchKVCache):  # type: ignore[misc]
    """mlx-lm's batch, which does nothing that needs not be done while it has a single row.

    A single row has no padding: filtering shifts it away, and merging one row adds none.
    """

    def filter(self, batch_indices: Sequence[int]) -> None:
        """Keep these rows."""
        if not (self._is_alone() and list(batch_indices) == [0]):
            super().filter(batch_indices)

    def make_mask(self, n_tokens: int, **wanted: Any) -> Any:
        """What attention is told of the next tokens: a row alone says it as its own cache would.

        An array, the word for a plain causal mask, or None where nothing is to be hidden.
        """
        if self._is_alone():
            return create_attention_mask(n_tokens, self._idx, **{**_PLAIN, **wanted})
        return super().make_mask(n_tokens, **wanted)

    def _is_alone(self) -> bool:
        return len(self.left_padding) == 1


def as_lone_rows(caches: Sequence[Cache]) -> list[Cache]:
    """The same caches, those of keys and values ready to enter a batch without a copy."""
    for cache in caches:
        if isinstance(cache, CacheList):
            as_lone_rows(cache.caches)
        elif type(cache) is KVCache:
            cache.__class__ = LoneRowKVCache
    return list(caches)
