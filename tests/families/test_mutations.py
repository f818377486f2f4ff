"""The laws notice a broken engine: each test breaks one thing on purpose and names the law that must fail.

The family is loaded first: its self-check would notice as well, and switch off what was broken.
"""

import dataclasses
from types import SimpleNamespace

import mlx.core as mx
import pytest
from mlx_lm.models.cache import KVCache, RotatingKVCache

from app.engine.decoder import BatchDecoder
from app.engine.kinds import KINDS
from app.engine.selfcheck import Capabilities
from tests.families import laws
from tests.support.lossy import lose_a_slot


def broken(law, family):
    """The law does not hold."""
    with pytest.raises(AssertionError):
        law(family)


def test_a_restore_that_is_short_of_one_token_is_noticed(family, monkeypatch):
    """The state of n - 1 tokens is given out as that of n."""
    model = family("llama")
    restore = BatchDecoder.restore
    monkeypatch.setattr(BatchDecoder, "restore", lambda self, state, n: restore(self, state, n - 1))

    broken(laws.the_second_turn_hits_and_is_as_cold, model)


@pytest.mark.parametrize("name", ["llama", "gemma3_text", "qwen3_next", "llama4"])
def test_the_state_of_another_session_is_noticed(family, monkeypatch, name):
    """Whoever asks gets the first state that was ever asked for, of as many tokens."""
    model = family(name)
    restore = BatchDecoder.restore
    asked_for = []

    def restore_first(self, state, n_tokens):
        asked_for.append(state)
        return restore(self, asked_for[0], n_tokens)

    monkeypatch.setattr(BatchDecoder, "restore", restore_first)

    broken(laws.sessions_never_mix, model)


def test_a_stored_state_that_is_written_to_is_noticed(family, monkeypatch):
    """Restores hand out the stored objects themselves, and the running request moves them on."""
    model = family("llama4")
    monkeypatch.setattr("app.engine.payload.copy", SimpleNamespace(deepcopy=lambda cache: cache))

    broken(laws.a_replay_is_equal, model)


@pytest.mark.parametrize(("kind", "name"), [(KVCache, "llama"), (RotatingKVCache, "gemma3_text")])
def test_a_seal_that_begins_one_position_late_is_noticed(family, monkeypatch, kind, name):
    """Keys and values are one position off; for a window, it starts one too early."""
    model = family(name)
    seal = KINDS[kind].seal

    def seal_shifted(cache):
        sealed = seal(cache)
        for each in ("keys", "values"):
            array = getattr(sealed, each)
            setattr(sealed, each, mx.concatenate([array[..., -1:, :], array[..., :-1, :]], axis=2))
        return sealed

    monkeypatch.setitem(KINDS, kind, dataclasses.replace(KINDS[kind], seal=seal_shifted))

    broken(laws.the_second_turn_hits_and_is_as_cold, model)


def test_a_window_that_is_short_of_its_first_position_is_noticed(family, monkeypatch):
    """The oldest token that the window still sees is zero."""
    model = family("gemma3_text")
    seal = KINDS[RotatingKVCache].seal

    def seal_without_the_first(cache):
        sealed = seal(cache)
        for name in ("keys", "values"):
            array = getattr(sealed, name)
            setattr(
                sealed, name, mx.concatenate([mx.zeros_like(array[..., :2, :]), array[..., 2:, :]], axis=2)
            )
        return sealed

    kind = dataclasses.replace(KINDS[RotatingKVCache], seal=seal_without_the_first)
    monkeypatch.setitem(KINDS, RotatingKVCache, kind)

    broken(laws.a_replay_is_equal, model)


@pytest.mark.parametrize("name", ["lfm2", "mamba2", "qwen3_next", "rwkv7"])
def test_a_recurrent_state_that_loses_a_slot_is_noticed(family, monkeypatch, name):
    """The array of a recurrent layer that remembers longest comes back as zeros."""
    model = family(name)
    lose_a_slot(monkeypatch)

    broken(laws.the_second_turn_hits_and_is_as_cold, model)


@pytest.mark.parametrize(("kind", "name"), [(KVCache, "llama"), (RotatingKVCache, "gemma3_text")])
def test_a_cut_that_is_off_by_one_is_noticed(family, monkeypatch, kind, name):
    """A state that is cut back keeps one position too many."""
    model = family(name)
    truncate = KINDS[kind].truncate
    monkeypatch.setitem(
        KINDS,
        kind,
        dataclasses.replace(KINDS[kind], truncate=lambda cache, n_tokens: truncate(cache, n_tokens + 1)),
    )

    broken(laws.a_state_cut_back_is_as_cold, model)


@pytest.mark.parametrize(
    "name",
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
def test_without_the_self_check_prompts_would_spoil_each_other(family, name):
    """These families are right only because the check has them prefilled one at a time."""
    trusted = dataclasses.replace(family(name), found=Capabilities(truncation=False))

    broken(laws.together_is_as_alone, trusted)
