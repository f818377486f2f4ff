"""Turns a request's `Sampling` into mlx-lm samplers and logits processors. Engine thread only."""

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, cast

import mlx.core as mx
from mlx_lm.sample_utils import apply_min_p, apply_top_k, apply_top_p, make_logits_processors, make_sampler

from app.scheduler.job import Sampling, TokenLogprob

Sampler = Callable[[mx.array], mx.array]
LogitsProcessor = Callable[[Any, mx.array], mx.array]

_DISTINCT_SAMPLERS = 256

PENALTY_TOKENS = 20
"""How far back penalties look."""


class Samplers:
    """Hands out one sampler object for equal parameters: rows that share it are sampled in one call.

    A seeded request gets an object of its own: its randomness must not depend on its neighbours.
    """

    def __init__(self) -> None:
        self._shared: Callable[..., Sampler] = lru_cache(maxsize=_DISTINCT_SAMPLERS)(make_sampler)

    def sampler(self, sampling: Sampling) -> Sampler:
        """A callable from log-probabilities, shape (rows, vocabulary), to token ids, shape (rows,)."""
        if sampling.seed is not None and sampling.temperature > 0:
            return _seeded(sampling, sampling.seed)
        if sampling.temperature == 0:
            return self._shared(temp=0.0)
        return self._shared(
            temp=sampling.temperature,
            top_p=sampling.top_p,
            min_p=sampling.min_p,
            top_k=sampling.top_k,
        )


def _seeded(sampling: Sampling, seed: int) -> Sampler:
    """Draws token i with key split(seed, i), so a reply repeats whatever else runs in the batch."""
    filters: list[Callable[[mx.array], mx.array]] = []
    if sampling.top_p < 1:
        filters.append(partial(apply_top_p, top_p=sampling.top_p))
    if sampling.min_p > 0:
        filters.append(partial(apply_min_p, min_p=sampling.min_p))
    if sampling.top_k > 0:
        filters.append(partial(apply_top_k, top_k=sampling.top_k))
    key = mx.random.key(seed & 0xFFFF_FFFF_FFFF_FFFF)

    def sample(logprobs: mx.array) -> mx.array:
        nonlocal key
        for keep in filters:
            logprobs = keep(logprobs)
        key, draw = mx.random.split(key)
        return mx.random.categorical(logprobs * (1 / sampling.temperature), key=draw)

    return sample


def logits_processors(sampling: Sampling) -> list[LogitsProcessor]:
    """mlx-lm's processors for biases, and for penalties of the last `PENALTY_TOKENS`."""
    processors: list[LogitsProcessor] = make_logits_processors(
        logit_bias=dict(sampling.logit_bias) or None,
        repetition_penalty=sampling.repetition_penalty if sampling.repetition_penalty != 1 else None,
        repetition_context_size=PENALTY_TOKENS,
        presence_penalty=sampling.presence_penalty,
        presence_context_size=PENALTY_TOKENS,
        frequency_penalty=sampling.frequency_penalty,
        frequency_context_size=PENALTY_TOKENS,
    )
    return processors


def token_logprob(logprobs: mx.array, token: int, top: int) -> TokenLogprob:
    """The chosen token's log-probability and the `top` likeliest ones; `logprobs` has shape (vocabulary,).

    They are fewer where fewer could come at all.
    """
    chosen = cast("float", logprobs[token].item())
    if top == 0:
        return TokenLogprob(chosen, ())
    likeliest = mx.argpartition(-logprobs, kth=top - 1)[:top]
    ids = cast("list[int]", likeliest.tolist())
    values = cast("list[float]", logprobs[likeliest].tolist())
    possible = [pair for pair in zip(ids, values, strict=True) if pair[1] != -math.inf]
    return TokenLogprob(chosen, tuple(sorted(possible, key=lambda pair: -pair[1])))
