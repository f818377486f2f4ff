"""Tiny models of mlx-lm's own classes with random weights and a byte-level tokenizer, as model folders.

A few hundred kB each, they run in milliseconds through exactly the code that real models run through.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.utils import _get_classes
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from tests.support.families import FAMILIES

SPECIAL_TOKENS = ("<|im_start|>", "<|im_end|>")

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + (message['content'] or '') + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

_WEIGHT_SCALE = 3.0
"""mlx's initial weights are so small that a random model says one byte for ever; larger ones make it vary."""

_FORGETTING_BIAS = -4.0
"""Of what decides how fast a state forgets: as slowly as in trained models, over hundreds of tokens."""


def _lively(name: str, weight: mx.array) -> mx.array:
    """A weight with which what a layer remembers shows in what it says."""
    if name.endswith(("dt_bias", "w_lora.lora.2.bias")):
        return mx.full(weight.shape, _FORGETTING_BIAS, weight.dtype)
    if not mx.any(weight):
        # Left at zero, it silences a layer's output or ties all experts.
        return mx.random.uniform(-0.5, 0.5, weight.shape).astype(weight.dtype)
    return weight * _WEIGHT_SCALE if weight.ndim > 1 else weight


def make_tiny_model(
    folder: Path,
    family: str,
    *,
    seed: int = 0,
    chat_template: str = CHATML,
    changes: Mapping[str, object] | None = None,
    more_tokens: Sequence[str] = (),
) -> Path:
    """Write a model folder that `mlx_lm.load` reads; the same seed gives the same weights.

    `changes` to the family's configuration make it, say, less tiny; `more_tokens` need a larger vocabulary.
    """
    config = {**FAMILIES[family], "eos_token_id": 257, **(changes or {})}
    mx.random.seed(seed)
    model_class, args_class = _get_classes(config)
    model = model_class(args_class.from_dict(config))
    weights = {name: _lively(name, weight) for name, weight in tree_flatten(model.parameters())}
    folder.mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(str(folder / "model.safetensors"), weights)
    (folder / "config.json").write_text(json.dumps(config))
    write_byte_tokenizer(folder, chat_template=chat_template, more_tokens=more_tokens)
    return folder


def write_byte_tokenizer(
    folder: Path, *, chat_template: str = CHATML, more_tokens: Sequence[str] = ()
) -> None:
    """A tokenizer with one token a byte, and ChatML's two marks and `more_tokens` as special tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = (*SPECIAL_TOKENS, *more_tokens)
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in special])
    (folder / "tokenizer.json").write_text(tokenizer.to_str())
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": SPECIAL_TOKENS[1],
        "clean_up_tokenization_spaces": False,
        "chat_template": chat_template,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
