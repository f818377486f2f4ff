"""Every class of cache that mlx-lm's models have, and how each is copied out, cut back and described.

The table knows layouts of state; it must not know of snapshots, jobs or batches.
"""

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten, tree_map
from mlx_lm.models.cache import (
    ArraysCache,
    CacheList,
    ChunkedKVCache,
    ConcatenateKVCache,
    KVCache,
    QuantizedKVCache,
    RotatingKVCache,
)
from mlx_lm.models.deepseek_v41 import LayerCache

from app.errors import RestoreError, UnsupportedCacheError

Cache = Any
"""One layer's cache object of mlx-lm, which is untyped."""


@dataclass(frozen=True, slots=True)
class CacheKind:
    """How one cache class of mlx-lm is treated.

    `seal`: a new cache over contiguous arrays of exactly the state. `can_truncate`: whether `truncate` to
    that many tokens is exact. `geometry`: what besides the class must be equal for two caches to mix.
    `keeps_every_token`: whether `can_truncate` holds for every state of this cache.
    """

    seal: Callable[[Cache], Cache]
    can_truncate: Callable[[Cache, int], bool]
    truncate: Callable[[Cache, int], Cache]
    geometry: Callable[[Cache], str]
    keeps_every_token: Callable[[Cache], bool]


def kind_of(cache: Cache) -> CacheKind:
    """How to treat `cache`. By exact class: a subclass may keep state this table does not know of.

    Raises:
        UnsupportedCacheError: the class is not in the table.
    """
    try:
        return KINDS[type(cache)]
    except KeyError:
        raise UnsupportedCacheError(f"model state of kind {type(cache).__name__} cannot be stored") from None


def unknown_kinds(caches: Iterable[Cache]) -> tuple[str, ...]:
    """The names of the classes among `caches` that the table does not have, sorted."""
    return tuple(sorted({type(leaf).__name__ for leaf in leaves(caches) if type(leaf) not in KINDS}))


def can_be_batched(caches: Iterable[Cache]) -> bool:
    """Whether mlx-lm can put rows with these caches into one batch."""
    return all(hasattr(leaf, "merge") for leaf in leaves(caches))


def leaves(caches: Iterable[Cache]) -> Iterable[Cache]:
    """The caches that hold arrays themselves."""
    for cache in caches:
        if isinstance(cache, CacheList):
            yield from leaves(cache.caches)
        else:
            yield cache


def arrays_of(caches: Iterable[Cache]) -> list[mx.array]:
    """Every array that caches of known kinds hold."""
    return [
        value
        for cache in leaves(caches)
        for _, value in tree_flatten(vars(cache))
        if isinstance(value, mx.array)
    ]


def describe(caches: Iterable[Cache]) -> str:
    """Class and geometry of every layer. Unknown kinds go by name alone; it is sealing that refuses them."""
    return "|".join(
        f"{type(cache).__name__}({KINDS[type(cache)].geometry(cache) if type(cache) in KINDS else ''})"
        for cache in caches
    )


def _slots(cache: Cache, change: Callable[[Any], Any], names: Iterable[str], **numbers: int) -> Cache:
    """A copy of `cache` with `change` done to all arrays in the attributes `names`, and these numbers set."""
    changed = copy.copy(cache)
    for name in names:
        setattr(changed, name, tree_map(change, getattr(cache, name)))
    for name, number in numbers.items():
        setattr(changed, name, number)
    return changed


_KV = ("keys", "values")


def _first(cache: Cache, n_tokens: int) -> Cache:
    """Keys and values, quantized or not, of the first `n_tokens` positions."""
    return _slots(cache, lambda array: array[..., :n_tokens, :], _KV, offset=n_tokens)


def _seal_kv(cache: Cache) -> Cache:
    if cache.keys is None:
        return copy.copy(cache)
    return _slots(cache, lambda array: mx.contiguous(array[..., : cache.offset, :]), _KV)


def _seal_rotating(cache: Cache) -> Cache:
    """In temporal order and no longer than the window: a prefill leaves more than the window behind."""
    if cache.keys is None:
        return copy.copy(cache)
    length = cache.size()
    order = cache._temporal_order  # noqa: SLF001 - mlx-lm has no public way to unroll
    return _slots(cache, lambda array: mx.contiguous(order(array)[..., -length:, :]), _KV, _idx=length)


def _can_truncate_rotating(cache: Cache, n_tokens: int) -> bool:
    """Only while the window has not wrapped are all earlier positions still there."""
    return bool(n_tokens <= cache.offset < cache.max_size)


def _truncate_rotating(cache: Cache, n_tokens: int) -> Cache:
    return _slots(_first(cache, n_tokens), lambda array: array, (), _idx=n_tokens)


def _seal_chunked(cache: Cache) -> Cache:
    if cache.keys is None:
        return copy.copy(cache)
    held = cache.offset - cache.start_position
    return _slots(cache, lambda array: mx.contiguous(array[..., :held, :]), _KV)


def _can_truncate_chunked(cache: Cache, n_tokens: int) -> bool:
    """The next token looks back to where its chunk begins; all from there on must still be held."""
    chunk_start = n_tokens // cache.chunk_size * cache.chunk_size
    return bool(cache.start_position <= chunk_start and n_tokens <= cache.offset)


def _truncate_chunked(cache: Cache, n_tokens: int) -> Cache:
    held = n_tokens - cache.start_position
    return _slots(cache, lambda array: array[..., :held, :], _KV, offset=n_tokens)


def _seal_arrays(cache: Cache) -> Cache:
    sealed = ArraysCache(len(cache.cache))
    sealed.cache = [None if array is None else mx.contiguous(array) for array in cache.cache]
    return sealed


_LAYER_ARRAYS = ("window", "compress_kv", "index_k", "pending_kv", "pending_gate")


def _seal_layer(cache: Cache) -> Cache:
    return _slots(cache, lambda array: None if array is None else mx.contiguous(array), _LAYER_ARRAYS)


def _refuse_truncate(cache: Cache, _n_tokens: int) -> Cache:
    raise RestoreError(f"{type(cache).__name__} holds one state, not one a token, and cannot be cut back")


def _every_token(geometry: Callable[[Cache], str]) -> CacheKind:
    return CacheKind(
        seal=_seal_kv,
        can_truncate=lambda cache, n: n <= cache.offset,
        truncate=_first,
        geometry=geometry,
        keeps_every_token=lambda _cache: True,
    )


def _one_state(seal: Callable[[Cache], Cache], geometry: Callable[[Cache], str]) -> CacheKind:
    return CacheKind(
        seal=seal,
        can_truncate=lambda _cache, _n: False,
        truncate=_refuse_truncate,
        geometry=geometry,
        keeps_every_token=lambda _cache: False,
    )


KINDS: dict[type, CacheKind] = {
    KVCache: _every_token(lambda _cache: ""),
    ConcatenateKVCache: _every_token(lambda _cache: ""),
    QuantizedKVCache: _every_token(lambda cache: f"{cache.group_size},{cache.bits}"),
    RotatingKVCache: CacheKind(
        seal=_seal_rotating,
        can_truncate=_can_truncate_rotating,
        truncate=_truncate_rotating,
        geometry=lambda cache: f"{cache.max_size},{cache.keep}",
        keeps_every_token=lambda _cache: False,
    ),
    ChunkedKVCache: CacheKind(
        seal=_seal_chunked,
        can_truncate=_can_truncate_chunked,
        truncate=_truncate_chunked,
        geometry=lambda cache: str(cache.chunk_size),
        keeps_every_token=lambda _cache: False,
    ),
    ArraysCache: _one_state(_seal_arrays, lambda cache: str(len(cache.cache))),
    LayerCache: _one_state(_seal_layer, lambda cache: str(cache.window_size)),
    CacheList: CacheKind(
        seal=lambda cache: CacheList(*(kind_of(part).seal(part) for part in cache.caches)),
        can_truncate=lambda cache, n: all(kind_of(part).can_truncate(part, n) for part in cache.caches),
        truncate=lambda cache, n: CacheList(*(kind_of(part).truncate(part, n) for part in cache.caches)),
        geometry=lambda cache: describe(cache.caches),
        keeps_every_token=lambda cache: all(kind_of(part).keeps_every_token(part) for part in cache.caches),
    ),
}
"""Class → its treatment. Which of them mlx-lm can batch is asked of the classes: `can_be_batched`."""
