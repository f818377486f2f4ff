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
NOTHING = -1
"""Stands before what was read first."""

CERTAIN = 80.0
"""Added to the logit of a line's next token: more than any other has, less than what a client can forbid."""

_CONFIG = json.loads((FOLDER / "config.json").read_text())
_Network, ModelArgs = _get_classes({key: value for key, value in _CONFIG.items() if key != "model_file"})


class Model(_Network):  # type: ignore[misc, valid-type]
    """The folder's model with its script.

    Row i of `after` is what was read last when `says[i]` comes next, as far as row i of `matters` says so.
    """

    def __init__(self, args: Any) -> None:
        super().__init__(args)
        script: Any = mx.load(str(FOLDER / "script.safetensors"))
        self._after, self._matters = script["after"], script["matters"]
        self._says = mx.arange(args.vocab_size) == script["says"][:, None]

    def make_cache(self) -> list[Any]:
        own = super().make_cache() if hasattr(_Network, "make_cache") else [KVCache() for _ in self.layers]
        return [*own, KVCache()]

    def __call__(self, inputs: mx.array, cache: Any = None, **more: Any) -> mx.array:
        *own, read = cache if cache is not None else self.make_cache()
        logits = super().__call__(inputs, own, **more)
        tokens = inputs.astype(mx.float32)[:, None, :, None]
        everything, _ = read.update_and_fetch(tokens, tokens)
        length = self._after.shape[1]
        last = everything[:, 0, -length:, 0]
        last = mx.pad(last, [(0, 0), (length - last.shape[1], 0)], constant_values=NOTHING)
        heard = mx.all((self._after == last[:, None]) | ~self._matters, axis=-1)
        said = CERTAIN * (heard.astype(logits.dtype) @ self._says.astype(logits.dtype))
        return mx.concatenate([logits[:, :-1], (logits[:, -1] + said)[:, None]], axis=1)
