"""A row alone in its batch: nothing is copied for it, and all comes out as from mlx-lm's own batch."""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlx_lm.models.cache import BatchKVCache, CacheList, KVCache

from app.engine.lone_row import LoneRowBatch, as_lone_rows
from app.engine.payload import seal

HEADS, HEAD_SIZE = 2, 8
LENGTHS = st.lists(st.sampled_from([0, 1, 31, 255, 256, 257, 300]), min_size=1, max_size=3)
NOISE = np.random.default_rng(1).standard_normal((1, HEADS, 2_048, HEAD_SIZE)).astype(np.float32)


def noise(rows: int, n_tokens: int, begin: int) -> mx.array:
    """Keys or values of so many tokens; no two rows and no two positions have the same."""
    row = NOISE[:, :, begin : begin + n_tokens]
    return mx.array(np.concatenate([row * (number + 1) for number in range(rows)]))


def filled(n_tokens: int, begin: int = 0) -> KVCache:
    """One row's cache, evaluated."""
    cache = KVCache()
    if n_tokens:
        cache.update_and_fetch(noise(1, n_tokens, begin), noise(1, n_tokens, begin + 1))
        mx.eval(cache.keys, cache.values)
    return cache


def merged(caches: Sequence[KVCache], *, lone: bool) -> BatchKVCache:
    rows = as_lone_rows(caches) if lone else list(caches)
    return rows[0].merge(rows)


def visible(mask: Any, n_tokens: int, n_keys: int) -> np.ndarray:
    """Which keys each of the next tokens may look at, whatever the mask is said as."""
    plain = np.tril(np.ones((n_tokens, n_keys), bool), n_keys - n_tokens)
    if isinstance(mask, mx.array):
        return np.array(mask)
    assert mask == "causal" or (mask is None and n_tokens == 1)
    return plain[None, None]


def same(ours: BatchKVCache, theirs: BatchKVCache) -> None:
    """Both hold the same rows, and mask them alike."""
    rows = len(theirs.left_padding)
    for n_tokens in (1, 5):
        masks = [cache.make_mask(n_tokens) for cache in (ours, theirs)]
        one, other = (visible(mask, n_tokens, theirs.size() + n_tokens) for mask in masks)
        assert np.array_equal(np.broadcast_to(one, other.shape), other)
    for row in range(rows):
        mine, original = ours.extract(row), theirs.extract(row)
        assert type(mine) is KVCache
        assert mine.offset == original.offset
        assert mx.array_equal(mine.keys, original.keys)
        assert mx.array_equal(mine.values, original.values)


@given(first=LENGTHS, second=LENGTHS, data=st.data())
def test_a_batch_is_what_mlx_lms_own_is(first, second, data):
    """Merged, written to, joined by others, parted again: every row and every mask is the same."""
    pair = []
    for lone in (True, False):
        batch, other = (
            merged([filled(length, 100 * at) for at, length in enumerate(lengths)], lone=lone)
            for lengths in (first, second)
        )
        pair.append((batch, other))
    (ours, ours_other), (theirs, theirs_other) = pair
    if any(first):
        same(ours, theirs)
    for batch in (ours, theirs):
        batch.update_and_fetch(noise(len(first), 3, 900), noise(len(first), 3, 901))
    for batch in (ours_other, theirs_other):
        batch.update_and_fetch(noise(len(second), 9, 700), noise(len(second), 9, 701))
    same(ours, theirs)
    ours.extend(ours_other)
    theirs.extend(theirs_other)
    same(ours, theirs)
    keep = data.draw(
        st.lists(st.integers(0, len(first) + len(second) - 1), min_size=1, unique=True).map(sorted)
    )
    ours.filter(keep)
    theirs.filter(keep)
    for batch in (ours, theirs):
        batch.update_and_fetch(noise(len(keep), 1, 500), noise(len(keep), 1, 501))
    same(ours, theirs)


@pytest.mark.parametrize("used", [256, 299, 300])
def test_writing_to_a_batch_leaves_the_stored_state_alone(used):
    """Restored whole or cut back: a batch writes elsewhere, and the next one is restored the same."""
    stored = seal([filled(300)], 300)
    before = np.array(stored.restore(300)[0].keys)
    batch = merged(stored.restore(used), lone=True)
    for at in range(3):
        mx.eval(batch.update_and_fetch(noise(1, 1, 900 + at), noise(1, 1, 900 + at)))

    assert np.array_equal(np.array(stored.restore(300)[0].keys), before)
    assert np.array_equal(np.array(batch.keys[..., :used, :]), before[..., :used, :])
    assert not np.array_equal(np.array(batch.keys[..., used, :]), np.zeros((1, HEADS, HEAD_SIZE)))


def test_entering_a_batch_and_going_on_to_decode_copies_nothing():
    """mlx-lm's own does both, which shows that a copy would be seen."""
    grown = {}
    for lone in (True, False):
        row = filled(2_000)
        before = mx.get_active_memory()
        batch = merged([row], lone=lone)
        batch.filter([0])
        mx.eval(batch.keys, batch.values)
        grown[lone] = (mx.get_active_memory() - before) / (row.keys.nbytes + row.values.nbytes)
        del row, batch

    assert grown[True] < 0.01
    assert grown[False] > 0.9


def test_a_row_alone_is_masked_as_its_own_cache_masks_it():
    """A word where a word does, for which backends have fused kernels; an array where one is asked for."""
    batch = merged([filled(40)], lone=True)

    assert isinstance(batch, LoneRowBatch)
    assert batch.make_mask(5) == "causal"
    assert batch.make_mask(1) is None
    assert isinstance(batch.make_mask(5, return_array=True), mx.array)
    assert mx.array_equal(
        batch.make_mask(5, window_size=8), filled(40).make_mask(5, window_size=8, return_array=True)
    )


def test_caches_within_caches_are_ready_too():
    """Those that are lists of others, and nothing but keys and values."""
    (cache,) = as_lone_rows([CacheList(KVCache(), CacheList(KVCache()))])

    assert [type(each).__name__ for each in (cache.caches[0], cache.caches[1].caches[0])] == [
        "LoneRowKVCache"
    ] * 2
