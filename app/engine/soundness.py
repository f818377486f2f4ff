"""Shows in one run that a model is sound, where it is: all that serving does with its states, at once.

It finds no fault: where a model is not shown to be sound, whoever asks has to find out why. Engine thread
only.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import make_prompt_cache

from app.engine.kinds import arrays_of
from app.engine.probe import (
    PROBE_LIMITS,
    REPLY_TOKENS,
    Answer,
    ProbeDecoder,
    Prompts,
    Row,
    close,
    floored,
)

log = logging.getLogger(__name__)

_LIMITS = replace(PROBE_LIMITS, max_running=5, prefill_batch=5)

_LATER_TOKENS = REPLY_TOKENS - 1
"""Of the rows that join the first one when it has a token: all end in the same step, their last tokens in a
batch of all."""

_FIRST, _COLD, _SHORT, _RESTORED, _CUT_BACK = "first", "cold", "short", "restored", "cut back"


@dataclass(frozen=True, slots=True)
class Sound:
    """A model that says the same however it is run. `cuts`: also from a state that was cut back."""

    cuts: bool


def shown_sound(network: Any, prompts: Prompts) -> Sound | None:
    """What a model is good for that is sound, and None of one that is not shown to be.

    What is compared with is one plain pass over each prompt and its reply, without batches and snapshots.
    Nothing that is wrong can make up for something else: each row is compared by itself.

    Args:
        network: an mlx-lm model whose caches can be batched and sealed.
        prompts: what it is asked.
    """
    try:
        return _sound(ProbeDecoder(network, limits=_LIMITS), network, prompts)
    except Exception:  # a family may fail in any way
        log.info("a model raises when all is asked of it at once, and is asked step by step", exc_info=True)
        return None


def _sound(probe: ProbeDecoder, network: Any, prompts: Prompts) -> Sound | None:
    # Alone first, from nothing, through a stop: a batch of one, prefilled in two segments.
    probe.begin(Row(name=_FIRST, tokens=prompts.near, stops=(prompts.boundary,)))
    state = probe.sealed(_FIRST)
    stored = [array + 0 for array in arrays_of(state.payload.restore(prompts.boundary))]
    mx.eval(stored)
    probe.advance()
    # Then all others beside it, which are prefilled together, padded to the longest, and join the batch as it
    # decodes.
    rows = {
        _COLD: Row(name=_COLD, tokens=prompts.near, reply_tokens=_LATER_TOKENS),
        _SHORT: Row(name=_SHORT, tokens=prompts.short, reply_tokens=_LATER_TOKENS),
        _RESTORED: Row(name=_RESTORED, tokens=prompts.near, start=state, reply_tokens=_LATER_TOKENS),
    }
    cuts = state.payload.can_truncate_to(prompts.cut)
    if cuts:
        rows[_CUT_BACK] = replace(rows[_SHORT], name=_CUT_BACK, start=state, use_tokens=prompts.cut)
    for row in rows.values():
        probe.begin(row)
    said = probe.finish()
    plain = {
        prompts.near: _in_one_pass(network, prompts.near, said[_FIRST]),
        prompts.short: _in_one_pass(network, prompts.short, said[_SHORT]),
    }
    as_plain = close(plain[prompts.near], said[_FIRST]) and all(
        close(_beginning(plain[row.tokens], said[name]), said[name]) for name, row in rows.items()
    )
    # What was restored has run, and must not have written to what it was restored from.
    kept = arrays_of(state.payload.restore(prompts.boundary))
    unchanged = all(mx.array_equal(one, other).item() for one, other in zip(stored, kept, strict=True))
    return Sound(cuts) if as_plain and unchanged else None


def _in_one_pass(network: Any, prompt: Sequence[int], answer: Answer) -> Answer:
    """What the model says at each token of an answer when it reads the prompt and the answer in one go."""
    read = [*prompt, *answer.tokens[:-1]]
    logits = network(mx.array([read]), cache=make_prompt_cache(network))[0, len(prompt) - 1 :]
    logprobs = floored(logits - mx.logsumexp(logits, axis=-1, keepdims=True))
    mx.eval(logprobs)
    return Answer(answer.tokens, list(logprobs))


def _beginning(whole: Answer, part: Answer) -> Answer:
    """As much of an answer as another one has."""
    return Answer(whole.tokens[: len(part.tokens)], whole.logprobs[: len(part.logprobs)])
