"""Model state as a value: sealed out of a batch, measured, and restored without ever being written.

mlx-lm's extracted caches are views or lazy, and pin the batch they came from; sealing makes every array
own exactly its bytes. How each kind of cache is treated is the table's to know (`kinds.py`). Must be called
on the engine thread.
"""

import copy
import hashlib
from collections.abc import Iterable, Sequence

import mlx.core as mx

from app.engine.kinds import Cache, arrays_of, describe, kind_of
from app.errors import RestoreError, UnsupportedCacheError


class SealedState:
    """The state of every layer after `n_tokens` tokens; owned, evaluated, measured, never written again.

    `truncatable=False` makes it a state that is used whole, whatever its caches could do.
    """

    __slots__ = ("_caches", "_truncatable", "arrays", "n_tokens", "nbytes")

    def __init__(self, caches: Sequence[Cache], n_tokens: int, *, truncatable: bool = True) -> None:
        self._caches = tuple(caches)
        self._truncatable = truncatable
        self.n_tokens = n_tokens
        held = arrays_of(self._caches)
        self.nbytes = sum(array.nbytes for array in held)
        self.arrays = len(held)

    def can_truncate_to(self, n_tokens: int) -> bool:
        """Whether `restore` can give the state of the first `n_tokens` tokens."""
        return n_tokens == self.n_tokens or (
            self._truncatable
            and 0 < n_tokens < self.n_tokens
            and all(kind_of(cache).can_truncate(cache, n_tokens) for cache in self._caches)
        )

    def restore(self, n_tokens: int) -> list[Cache]:
        """Fresh cache objects with the state of the first `n_tokens` tokens, over the same buffers.

        A deep copy of an mlx array is a new name for the same buffer: a write through the new objects makes
        a new buffer and leaves these alone.

        Raises:
            RestoreError: the state cannot be cut back to `n_tokens`.
        """
        if not self.can_truncate_to(n_tokens):
            raise RestoreError(f"a state of {self.n_tokens} tokens cannot be cut back to {n_tokens}")
        if n_tokens == self.n_tokens:
            return [copy.deepcopy(cache) for cache in self._caches]
        return [kind_of(cache).truncate(cache, n_tokens) for cache in self._caches]


def seal(caches: Sequence[Cache], n_tokens: int, *, truncatable: bool = True) -> SealedState:
    """Copy the state out of `caches`, so that nothing of the batch it came from stays alive.

    Raises:
        UnsupportedCacheError: a layer's cache is of a kind that is not known.
    """
    sealed = [kind_of(cache).seal(cache) for cache in caches]
    mx.eval(arrays_of(sealed))
    return SealedState(sealed, n_tokens, truncatable=truncatable)


def cache_signature(caches: Iterable[Cache]) -> str:
    """Class and geometry of every layer, hashed: states of different signatures never mix.

    Unknown kinds have a signature too; it is sealing them that is refused.
    """
    return hashlib.blake2b(describe(caches).encode(), digest_size=8).hexdigest()


def cache_kinds(caches: Iterable[Cache]) -> tuple[str, ...]:
    """The distinct cache classes of a model, for people to read, sorted."""
    return tuple(sorted({type(cache).__name__ for cache in caches}))


def is_truncatable(caches: Iterable[Cache]) -> bool:
    """Whether states of this model can be cut back at any time: all layers keep one entry a token."""
    try:
        return all(kind_of(cache).keeps_every_token(cache) for cache in caches)
    except UnsupportedCacheError:
        return False
