"""The run that shows a model to be sound: sound families pass it in few passes, and nothing broken does."""

import dataclasses
from types import SimpleNamespace

import mlx.core as mx
import pytest
from mlx_lm.models.cache import BatchKVCache, KVCache, RotatingKVCache

from app.engine.decoder import BatchDecoder
from app.engine.kinds import KINDS
from app.engine.lone_row import LoneRowKVCache
from app.engine.probe import prompts_below
from app.engine.selfcheck import check
from app.engine.soundness import Sound, shown_sound
from tests.support.lossy import lose_a_slot
from tests.support.passes import counted_passes

MOST_PASSES = 10


def shown(model) -> Sound | None:
    return shown_sound(model.network, prompts_below(len(model.tokenizer)))


@pytest.mark.parametrize(
    "family",
    ["deepseek_v3", "falcon_h1", "gemma3_text", "granitemoehybrid", "lfm2", "llama", "mamba2", "qwen3_next"],
)
def test_a_sound_model_is_shown_to_be_in_few_passes(tiny, monkeypatch, family):
    """Each pass reads all weights: that is what the check costs at a load."""
    model = tiny(family)
    passes = counted_passes(monkeypatch, model.network)

    assert shown(model) == Sound(cuts=family in {"deepseek_v3", "gemma3_text", "llama"})
    assert len(passes) == MOST_PASSES


@pytest.mark.parametrize(
    "family",
    [
        "bailing_moe_linear",
        "jamba",
        "longcat_flash_ngram",
        "mamba",
        "nemotron_h",
        "recurrent_gemma",
        "rwkv7",
    ],
)
def test_a_family_that_takes_in_padding_is_not_sound(tiny, family):
    """Prompts of unequal length spoil each other there."""
    assert shown(tiny(family)) is None


@pytest.mark.parametrize("family", ["llama", "gemma3_text", "qwen3_next"])
def test_a_restore_of_another_state_is_noticed(tiny, monkeypatch, family):
    """Of one token less, given out as the state of as many as were asked for."""
    restore = BatchDecoder.restore

    def short(self, payload, n):
        caches = restore(self, payload, n)
        for cache in caches:
            if hasattr(cache, "offset"):
                cache.offset -= 1
            else:
                cache.cache = [None if array is None else mx.zeros_like(array) for array in cache.cache]
        return caches

    monkeypatch.setattr(BatchDecoder, "restore", short)

    assert shown(tiny(family)) is None


@pytest.mark.parametrize(("kind", "family"), [(KVCache, "llama"), (RotatingKVCache, "gemma3_text")])
def test_a_seal_whose_values_are_one_position_off_is_noticed(tiny, monkeypatch, kind, family):
    """Each key has its neighbour's value."""
    seal = KINDS[kind].seal

    def shifted(cache):
        sealed = seal(cache)
        values = sealed.values
        sealed.values = mx.concatenate([values[..., -1:, :], values[..., :-1, :]], axis=2)
        return sealed

    monkeypatch.setitem(KINDS, kind, dataclasses.replace(KINDS[kind], seal=shifted))

    assert shown(tiny(family)) is None


@pytest.mark.parametrize("family", ["lfm2", "mamba2", "qwen3_next"])
def test_a_recurrent_state_that_loses_a_slot_is_noticed(tiny, monkeypatch, family):
    """The array of a recurrent layer that remembers longest comes back as zeros."""
    lose_a_slot(monkeypatch)

    assert shown(tiny(family)) is None
    assert not check(tiny(family).network, vocabulary_size=len(tiny(family).tokenizer)).reuse


@pytest.mark.parametrize("off", [-1, 1])
def test_a_cut_that_is_off_by_one_is_noticed(tiny, monkeypatch, off):
    """A state that is cut back keeps one position too many, or too few."""
    truncate = KINDS[KVCache].truncate
    monkeypatch.setitem(
        KINDS,
        KVCache,
        dataclasses.replace(KINDS[KVCache], truncate=lambda cache, n: truncate(cache, n + off)),
    )

    assert shown(tiny("llama")) is None


def test_a_stored_state_that_is_written_to_is_noticed(tiny, monkeypatch):
    """Restores hand out the stored objects themselves, and what runs writes to them."""
    monkeypatch.setattr("app.engine.payload.copy", SimpleNamespace(deepcopy=lambda cache: cache))
    merge = LoneRowKVCache.merge

    def careless(caches):
        merged = merge(caches)
        for cache in caches:
            if cache.keys is not None:
                cache.keys[..., 0, :] = 0
        return merged

    monkeypatch.setattr(LoneRowKVCache, "merge", careless)

    assert shown(tiny("llama")) is None


def test_a_batch_that_loses_track_of_its_padding_is_noticed(tiny, monkeypatch):
    """Rows that join a batch under way get the paddings of their neighbours."""
    extend = BatchKVCache.extend

    def mixed(self, other):
        extend(self, other)
        self.left_padding = self.left_padding[::-1]

    monkeypatch.setattr(BatchKVCache, "extend", mixed)

    assert shown(tiny("llama")) is None


def test_a_model_that_raises_is_not_sound(tiny, monkeypatch):
    """It is asked step by step then, and told apart from one that answers wrong."""
    monkeypatch.setattr(BatchKVCache, "extend", lambda _self, _other: 1 / 0)

    assert shown(tiny("llama")) is None
