"""A model of mlx-lm's own class that says given lines after given cues, and is itself everywhere else.

It is copied into a model's folder, where mlx-lm loads it from; it knows nothing of Samovar. What it has read
is in one more cache, of the kind that attention has: with a wrongly restored state it would miss its cue.
"""

import json
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import KVCache
from mlx_lm.utils import _get_classes

FOLDER = Path(__file__).parent
CERTAIN = 80.0
"""Added to the logit of a line's next token: more than any other has, less than what a client can forbid."""

_CONFIG = json.loads((FOLDER / "config.json").read_text())
_Network, ModelArgs = _get_classes({key: value for key, value in _CONFIG.items() if key != "model_file"})


class Model(_Network):  # type: ignore[misc, valid-type]
    """The folder's model with its script.

    `says[i]` comes next where the last `lengths[i]` tokens that were read have the sum `sums[i]`: each token
    plus one, times the factor of its place from the end, modulo 2³². A step compares a number a cue.
    """

    def __init__(self, args: Any) -> None:
        super().__init__(args)
        script: Any = mx.load(str(FOLDER / "script.safetensors"))
        self._factors, self._sums, self._lengths = (script[key] for key in ("factors", "sums", "lengths"))
        self._says = mx.arange(args.vocab_size) == script["says"][:, None]

    def make_cache(self) -> list[Any]:
        own = super().make_cache() if hasattr(_Network, "make_cache") else [KVCache() for _ in self.layers]
        return [*own, KVCache()]

    def __call__(self, inputs: mx.array, cache: Any = None, **more: Any) -> mx.array:
        *own, read = cache if cache is not None else self.make_cache()
        logits = super().__call__(inputs, own, **more)
        tokens = inputs.astype(mx.float32)[:, None, :, None]
        everything, _ = read.update_and_fetch(tokens, tokens)
        read_last = everything[:, 0, -self._factors.size :, 0][:, ::-1].astype(mx.uint32) + 1
        sums = mx.cumsum(read_last * self._factors[: read_last.shape[1]], axis=1)
        heard = (self._lengths <= sums.shape[1]) & (
            mx.take(sums, mx.minimum(self._lengths, sums.shape[1]) - 1, axis=1) == self._sums
        )
        said = CERTAIN * (heard.astype(logits.dtype) @ self._says.astype(logits.dtype))
        return mx.concatenate([logits[:, :-1], (logits[:, -1] + said)[:, None]], axis=1)
