"""The check at a model's load: it finds what is broken, switches off that and nothing else, and says so."""

import dataclasses

import mlx.core as mx
import pytest
from mlx_lm.models.cache import ArraysCache, KVCache

from app.engine.batch_limits import BatchLimits
from app.engine.decoder import BatchDecoder
from app.engine.kinds import KINDS
from app.engine.probe import TOLERANCE, Answer, distance
from app.engine.selfcheck import Capabilities, check

ASKED = BatchLimits(max_running=8, prefill_batch=4, prefill_step_tokens=512)


def checked(model) -> Capabilities:
    return check(model.network, vocabulary_size=len(model.tokenizer))


@pytest.mark.parametrize("family", ["llama", "gemma3_text", "deepseek_v3"])
def test_a_sound_model_is_trusted_with_everything(tiny, family):
    """Nothing is switched off, nothing is said, and the batch sizes are those asked for."""
    found = checked(tiny(family))

    assert found == Capabilities()
    assert found.limits(ASKED) == ASKED


def test_a_recurrent_model_is_used_whole_and_that_is_no_shortcoming(tiny):
    """A state that cannot be cut back by its nature is no fault."""
    assert checked(tiny("qwen3_next")) == Capabilities(truncation=False)


@pytest.mark.parametrize("family", ["bailing_moe_linear", "jamba", "longcat_flash_ngram"])
def test_a_model_that_takes_in_padding_is_prefilled_one_at_a_time(tiny, family):
    """Its replies may still be decoded together."""
    found = checked(tiny(family))

    assert (found.reuse, found.batched_prefill, found.batched_decode) == (True, False, True)
    assert found.limits(ASKED) == dataclasses.replace(ASKED, prefill_batch=1)
    assert found.shortcomings == ("prompts are prefilled one at a time: they mix if padded",)
    assert found.lasting


def test_a_model_whose_state_cannot_be_batched_runs_one_at_a_time(tiny):
    """It is served, with snapshots, one row at a time."""
    found = checked(tiny("llama4"))

    assert (found.reuse, found.batched_prefill, found.batched_decode) == (True, False, False)
    assert found.limits(ASKED) == ASKED.one_at_a_time()
    assert found.shortcomings == ("requests run one at a time: its states cannot be batched",)


def test_a_state_of_an_unknown_kind_is_named(tiny, monkeypatch):
    """The warning says which kind it is that will not be reused."""
    monkeypatch.delitem(KINDS, ArraysCache)

    found = checked(tiny("lfm2"))

    assert found.unknown_kinds == ("ArraysCache",)
    assert (found.reuse, found.batched_prefill) == (False, True)
    assert found.shortcomings == ("no snapshots: its state is of a kind that cannot be kept (ArraysCache)",)


def test_a_restore_that_comes_out_wrong_switches_snapshots_off(tiny, monkeypatch):
    """Batching does not depend on it and stays on."""
    restore = BatchDecoder.restore
    monkeypatch.setattr(BatchDecoder, "restore", lambda self, state, n: restore(self, state, n - 1))

    found = checked(tiny("llama"))

    assert (found.reuse, found.truncation, found.batched_prefill) == (False, False, True)
    assert found.shortcomings == ("no snapshots: a restored state does not go on as what it was taken from",)


def test_a_cut_that_comes_out_wrong_switches_only_cutting_back_off(tiny, monkeypatch):
    """Snapshots are still used whole."""
    truncate = KINDS[KVCache].truncate
    monkeypatch.setitem(
        KINDS, KVCache, dataclasses.replace(KINDS[KVCache], truncate=lambda cache, n: truncate(cache, n - 1))
    )

    found = checked(tiny("llama"))

    assert (found.reuse, found.truncation, found.batched_decode) == (True, False, True)
    assert found.shortcomings == ("snapshots are used whole only: one cut back does not go on as a shorter",)


def test_a_model_that_raises_in_a_batch_runs_one_at_a_time(tiny, monkeypatch, caplog):
    """An error on the way counts as a wrong answer, and the log keeps its stack."""
    network = tiny("llama").network
    call = type(network).__call__

    def alone_only(self, inputs, *args, **kwargs):
        if inputs.shape[0] > 1:
            raise ValueError("a batch, on purpose")
        return call(self, inputs, *args, **kwargs)

    monkeypatch.setattr(type(network), "__call__", alone_only)

    found = checked(tiny("llama"))

    assert (found.reuse, found.truncation) == (True, True)
    assert found.limits(ASKED) == ASKED.one_at_a_time()
    assert "a batch, on purpose" in caplog.text
    assert not found.lasting


def answer(*steps: tuple[int, list[float]]) -> Answer:
    return Answer(tokens=[token for token, _ in steps], logprobs=[mx.array(values) for _, values in steps])


def test_two_likely_tokens_may_change_places():
    """A flip within rounding is no difference, and what follows it is another prompt's answer."""
    one = answer((0, [-1.0, -1.001, -4.0, -6.0]), (3, [-9.0, -9.0, -1.0, -2.0]))
    other = answer((1, [-1.001, -1.0, -4.0, -6.0]), (2, [-1.0, -2.0, -9.0, -9.0]))

    assert 0 < distance(one, other) < TOLERANCE / 100


def test_another_distribution_is_far_away_even_with_the_same_tokens():
    """The same best token does not hide a wrong state."""
    assert distance(answer((0, [-1.0, -2.0, -3.0])), answer((0, [-1.0, -3.0, -2.0]))) > TOLERANCE


def test_what_is_not_a_number_is_infinitely_far():
    """A model that breaks down in one way of running is not close to itself in the other."""
    assert distance(answer((0, [-1.0, -2.0])), answer((0, [float("nan"), -2.0]))) == float("inf")
