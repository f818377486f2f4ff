"""Keeps a row's next token within what its reply may say. Engine thread only."""

from typing import Any

import mlx.core as mx

from app.scheduler.job import Walk

_WORD_BITS = 32


class TokenMask:
    """A logits processor of mlx-lm for one row.

    It reads each token one call after that was chosen, as mlx-lm's processors do. The first call's last
    token is the prompt's.
    """

    def __init__(self, walk: Walk) -> None:
        self._walk = walk
        self._prompt_is_last = True

    @property
    def failure(self) -> str:
        """Why the reply cannot go on; empty while it can."""
        return self._walk.failure

    def __call__(self, tokens: Any, logits: mx.array) -> mx.array:
        # The model's pass goes on meanwhile: to read the last token waits for the step before, and what may
        # come after it is found on the processor.
        mx.async_eval(logits)  # type: ignore[no-untyped-call]
        if not self._prompt_is_last:
            self._walk.take(int(tokens[-1].item()))
        self._prompt_is_last = False
        if self._walk.failure:
            # To raise here would take the whole batch along; the decoder ends this row alone.
            return logits
        return allow_only(logits, self._walk.allowed())


def allow_only(logits: mx.array, allowed: bytes) -> mx.array:
    """Logits of shape (1, vocabulary) with minus infinity for each token whose bit is not set.

    A network may have more outputs than there are tokens; they are not allowed.
    """
    words: Any = memoryview(allowed).cast("I")
    bits = ((mx.array(words)[:, None] >> mx.arange(_WORD_BITS, dtype=mx.uint32)) & 1).reshape(-1)
    missing = logits.shape[-1] - bits.size
    bits = mx.pad(bits, (0, missing)) if missing > 0 else bits[: logits.shape[-1]]
    return mx.where(bits.astype(mx.bool_), logits, mx.array(-mx.inf, dtype=logits.dtype))
