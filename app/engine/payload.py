"""Model state as a value: sealed out of a batch, measured, and restored without ever being written.

mlx-lm's extracted caches are views or lazy, and pin the batch they came from; sealing makes every array
own exactly its bytes. Must be called on the engine thread.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import ArraysCache, CacheList, KVCache, RotatingKVCache

from app.errors import RestoreError, UnsupportedCacheError

Cache = Any
"""One layer's cache object of mlx-lm, which is untyped."""


@dataclass(frozen=True, slots=True)
class CacheKind:
    """How one cache class of mlx-lm is copied out, cut back and described.

    `seal`: a new cache over contiguous arrays of exactly the state. `can_truncate`: whether `truncate`
    to that many tokens is exact. `geometry`: what besides the class must be equal for two caches to mix.
    """

    seal: Callable[[Cache], Cache]
    can_truncate: Callable[[Cache, int], bool]
    truncate: Callable[[Cache, int], Cache]
    geometry: Callable[[Cache], str]


def _seal_kv(cache: Cache) -> Cache:
    sealed = KVCache()
    if cache.keys is not None:
        sealed.keys = mx.contiguous(cache.keys[..., : cache.offset, :])
        sealed.values = mx.contiguous(cache.values[..., : cache.offset, :])
        sealed.offset = cache.offset
    return sealed


def _truncate_kv(cache: Cache, n_tokens: int) -> Cache:
    cut = KVCache()
    cut.keys = cache.keys[..., :n_tokens, :]
    cut.values = cache.values[..., :n_tokens, :]
    cut.offset = n_tokens
    return cut


def _seal_rotating(cache: Cache) -> Cache:
    """In temporal order and no longer than the window: a prefill leaves more than the window behind."""
    sealed = RotatingKVCache(cache.max_size, keep=cache.keep)
    if cache.keys is not None:
        length = cache.size()
        ordered_keys = cache._temporal_order(cache.keys)  # noqa: SLF001 - mlx-lm has no public way to unroll
        ordered_values = cache._temporal_order(cache.values)  # noqa: SLF001
        sealed.keys = mx.contiguous(ordered_keys[..., -length:, :])
        sealed.values = mx.contiguous(ordered_values[..., -length:, :])
        sealed.offset = cache.offset
        sealed._idx = length  # noqa: SLF001
    return sealed


def _can_truncate_rotating(cache: Cache, n_tokens: int) -> bool:
    """Only while the window has not wrapped are all earlier positions still there."""
    return bool(n_tokens <= cache.offset < cache.max_size)


def _truncate_rotating(cache: Cache, n_tokens: int) -> Cache:
    cut = RotatingKVCache(cache.max_size, keep=cache.keep)
    cut.keys = cache.keys[..., :n_tokens, :]
    cut.values = cache.values[..., :n_tokens, :]
    cut.offset = n_tokens
    cut._idx = n_tokens  # noqa: SLF001
    return cut


def _seal_arrays(cache: Cache) -> Cache:
    sealed = ArraysCache(len(cache.cache))
    sealed.cache = [None if array is None else mx.contiguous(array) for array in cache.cache]
    return sealed


def _refuse_truncate(cache: Cache, _n_tokens: int) -> Cache:
    raise RestoreError(f"{type(cache).__name__} holds one state, not one a token, and cannot be cut back")


def _seal_list(cache: Cache) -> Cache:
    return CacheList(*(kind_of(part).seal(part) for part in cache.caches))


KINDS: dict[type, CacheKind] = {
    KVCache: CacheKind(
        seal=_seal_kv,
        can_truncate=lambda cache, n: n <= cache.offset,
        truncate=_truncate_kv,
        geometry=lambda _cache: "",
    ),
    RotatingKVCache: CacheKind(
        seal=_seal_rotating,
        can_truncate=_can_truncate_rotating,
        truncate=_truncate_rotating,
        geometry=lambda cache: f"{cache.max_size},{cache.keep}",
    ),
    ArraysCache: CacheKind(
        seal=_seal_arrays,
        can_truncate=lambda _cache, _n: False,
        truncate=_refuse_truncate,
        geometry=lambda cache: str(len(cache.cache)),
    ),
    CacheList: CacheKind(
        seal=_seal_list,
        can_truncate=lambda cache, n: all(kind_of(part).can_truncate(part, n) for part in cache.caches),
        truncate=lambda cache, n: CacheList(*(kind_of(part).truncate(part, n) for part in cache.caches)),
        geometry=lambda cache: _describe(cache.caches),
    ),
}


def kind_of(cache: Cache) -> CacheKind:
    """How to treat `cache`. By exact class: a subclass may keep state this table does not know of.

    Raises:
        UnsupportedCacheError: the class is not in the table.
    """
    try:
        return KINDS[type(cache)]
    except KeyError:
        raise UnsupportedCacheError(f"model state of kind {type(cache).__name__} cannot be stored") from None


class SealedState:
    """The state of every layer after `n_tokens` tokens; owned, evaluated, measured, never written again."""

    __slots__ = ("_caches", "arrays", "n_tokens", "nbytes")

    def __init__(self, caches: Sequence[Cache], n_tokens: int) -> None:
        self._caches = tuple(caches)
        self.n_tokens = n_tokens
        held = list(_arrays(self._caches))
        self.nbytes = sum(array.nbytes for array in held)
        self.arrays = len(held)

    def can_truncate_to(self, n_tokens: int) -> bool:
        """Whether `restore` can give the state of the first `n_tokens` tokens."""
        return n_tokens == self.n_tokens or (
            0 < n_tokens < self.n_tokens
            and all(kind_of(cache).can_truncate(cache, n_tokens) for cache in self._caches)
        )

    def restore(self, n_tokens: int) -> list[Cache]:
        """Fresh cache objects with the state of the first `n_tokens` tokens, over the same buffers.

        MLX arrays are values: a write through the new objects makes a new array and leaves these alone.

        Raises:
            RestoreError: the state cannot be cut back to `n_tokens`.
        """
        if not self.can_truncate_to(n_tokens):
            raise RestoreError(f"a state of {self.n_tokens} tokens cannot be cut back to {n_tokens}")
        if n_tokens == self.n_tokens:
            return [_renew(cache) for cache in self._caches]
        return [kind_of(cache).truncate(cache, n_tokens) for cache in self._caches]


def seal(caches: Sequence[Cache], n_tokens: int) -> SealedState:
    """Copy the state out of `caches`, so that nothing of the batch it came from stays alive.

    Raises:
        UnsupportedCacheError: a layer's cache is of a kind that is not known.
    """
    sealed = [kind_of(cache).seal(cache) for cache in caches]
    mx.eval(list(_arrays(sealed)))
    return SealedState(sealed, n_tokens)


def cache_signature(caches: Iterable[Cache]) -> str:
    """Class and geometry of every layer, hashed: states of different signatures never mix.

    Unknown kinds have a signature too; it is sealing them that is refused.
    """
    return hashlib.blake2b(_describe(caches).encode(), digest_size=8).hexdigest()


def cache_kinds(caches: Iterable[Cache]) -> tuple[str, ...]:
    """The distinct cache classes of a model, for people to read, sorted."""
    return tuple(sorted({type(cache).__name__ for cache in caches}))


def is_truncatable(caches: Iterable[Cache]) -> bool:
    """Whether states of this model can be cut back at any time: all layers keep one entry a token."""
    return all(_always_truncatable(cache) for cache in caches)


def _always_truncatable(cache: Cache) -> bool:
    if isinstance(cache, CacheList):
        return is_truncatable(cache.caches)
    return type(cache) is KVCache


def _describe(caches: Iterable[Cache]) -> str:
    return "|".join(
        f"{type(cache).__name__}({KINDS[type(cache)].geometry(cache) if type(cache) in KINDS else ''})"
        for cache in caches
    )


def _arrays(caches: Iterable[Cache]) -> Iterable[mx.array]:
    for cache in caches:
        if isinstance(cache, CacheList):
            yield from _arrays(cache.caches)
        elif isinstance(cache, ArraysCache):
            yield from (array for array in cache.cache if array is not None)
        elif cache.keys is not None:
            yield cache.keys
            yield cache.values


def _renew(cache: Cache) -> Cache:
    """A new object over the same arrays; mlx-lm moves offsets and list slots of the object it is given."""
    if isinstance(cache, CacheList):
        return CacheList(*(_renew(part) for part in cache.caches))
    if isinstance(cache, ArraysCache):
        renewed = ArraysCache(len(cache.cache))
        renewed.cache = list(cache.cache)
        return renewed
    return type(cache).from_state(cache.state)
