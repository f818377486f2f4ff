"""What a model's state weighs by its length, read off its own caches without running it.

MLX computes nothing before it is asked to: after a forward pass that is never evaluated, every cache has
arrays of the right shape and type that hold no memory. Engine thread only.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import ChunkedKVCache, RotatingKVCache, make_prompt_cache

from app.engine.kinds import KINDS, Cache, arrays_of, leaves
from app.snapshots.sizing import Part, StateSize

LENGTHS = (128, 256)
"""Two points make a line: multiples of what compressed caches fold together, below all but toy windows."""


def measure(network: Any) -> StateSize:
    """How the state of an mlx-lm model grows: a line for each cache, up to its window where it has one."""
    windows = [_window(cache) for cache in leaves(make_prompt_cache(network))]
    short, long = LENGTHS
    smallest = min((window for window in windows if window is not None), default=long)
    if smallest < long:
        short, long = max(smallest // 2, 1), max(smallest, 2)
    parts = []
    for first, second, window in zip(_sizes(network, short), _sizes(network, long), windows, strict=True):
        slope = (second - first) / (long - short)
        parts.append(Part(first - slope * short, slope, window))
    return StateSize(tuple(_merged(parts)))


def _sizes(network: Any, tokens: int) -> list[int]:
    """The bytes that each cache would have after a prefill of so many tokens, once it is sealed."""
    caches = make_prompt_cache(network)
    network(mx.zeros((1, tokens), dtype=mx.int32), cache=caches)
    return [sum(array.nbytes for array in arrays_of([_sealed(cache)])) for cache in leaves(caches)]


def _sealed(cache: Cache) -> Cache:
    """As it would be stored, or as it is where it never will be."""
    kind = KINDS.get(type(cache))
    return cache if kind is None else kind.seal(cache)


def _window(cache: Cache) -> int | None:
    """After how many tokens the cache stops growing."""
    if isinstance(cache, RotatingKVCache):
        return int(cache.max_size)
    if isinstance(cache, ChunkedKVCache):
        return int(cache.chunk_size)
    return None


def _merged(parts: Sequence[Part]) -> Iterable[Part]:
    """One part for all caches of one window: sixty layers are one line."""
    for window in dict.fromkeys(part.most_tokens for part in parts):
        alike = [part for part in parts if part.most_tokens == window]
        yield Part(
            sum(part.fixed_bytes for part in alike), sum(part.bytes_per_token for part in alike), window
        )
