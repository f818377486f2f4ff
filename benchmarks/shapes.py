"""Models of real size with random weights, as folders: what they say is noise, what they cost is real."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.utils import _get_classes
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

SPECIAL_TOKENS = ("<|im_start|>", "<|im_end|>")
CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + (message['content'] or '') + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
VOCABULARY = 65_536
_SHARD_BYTES = 4 << 30
_BYTE_LEVEL_ASCII = (*map(chr, range(ord("!"), ord("~") + 1)), "\u0120", "\u010a")
"""As byte-level tokenizers write it: what is printed stands for itself; the last two are " " and "\\n"."""
_SAYS_TOKENS = ("lm_head.weight", "embed_tokens.weight")

SHAPES: Mapping[str, Mapping[str, Any]] = {
    "small-20m": {
        "model_type": "llama",
        "hidden_size": 256,
        "intermediate_size": 768,
        "num_hidden_layers": 6,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500_000.0,
        "max_position_embeddings": 8192,
        "vocab_size": VOCABULARY,
        "tie_word_embeddings": True,
    },
    "dense-8b": {
        "model_type": "llama",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500_000.0,
        "max_position_embeddings": 262_144,
        "vocab_size": VOCABULARY,
        "tie_word_embeddings": False,
    },
    "hybrid-2b": {
        "model_type": "lfm2",
        "hidden_size": 2048,
        "num_hidden_layers": 30,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "max_position_embeddings": 262_144,
        "norm_eps": 1e-5,
        "conv_bias": False,
        "conv_L_cache": 3,
        "block_dim": 2048,
        "block_ff_dim": 10_752,
        "block_multiple_of": 256,
        "block_ffn_dim_multiplier": 1.0,
        "block_auto_adjust_ff_dim": False,
        "rope_theta": 1_000_000.0,
        "full_attn_idxs": [2, 5, 9, 12, 16, 19, 23, 26],
        "vocab_size": VOCABULARY,
    },
    "sliding-4b": {
        "model_type": "gemma3_text",
        "hidden_size": 2560,
        "intermediate_size": 10_240,
        "num_hidden_layers": 34,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "rms_norm_eps": 1e-6,
        "query_pre_attn_scalar": 256,
        "sliding_window": 1024,
        "sliding_window_pattern": 6,
        "rope_theta": 1_000_000.0,
        "rope_local_base_freq": 10_000.0,
        "max_position_embeddings": 262_144,
        "vocab_size": VOCABULARY,
    },
    "small-64k": {
        "model_type": "llama",
        "hidden_size": 64,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 1,
        "num_key_value_heads": 1,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500_000.0,
        "max_position_embeddings": 65_536,
        "vocab_size": VOCABULARY,
        "tie_word_embeddings": True,
    },
}
"""By name: the layers of well-known models of that size; the vocabulary is smaller than theirs. `small-64k`
is nobody's: a prompt of 50,000 tokens is affordable with it on a few cores. Nor is `small-20m`: a step of it
takes some milliseconds on one."""


def make_shape(folder: Path, name: str, *, dtype: mx.Dtype = mx.bfloat16) -> Path:
    """The model's folder, made if it is not there yet; one folder holds models of one type of number."""
    target = folder / name
    if (target / "config.json").exists():
        return target
    target.mkdir(parents=True, exist_ok=True)
    config = {**SHAPES[name], "eos_token_id": VOCABULARY - 1}
    model_class, args_class = _get_classes(config)
    model = model_class(args_class.from_dict(config))
    shard: dict[str, mx.array] = {}
    number = held = 0
    for key, shape in [(key, weight.shape) for key, weight in tree_flatten(model.parameters())]:
        # Scaled by the fan-in, as an initialised model is, so that values stay finite over all layers.
        scale = 1.0 if len(shape) == 1 else 1 / math.sqrt(shape[-1])
        weight = mx.random.normal(shape) * scale
        if key.endswith(_SAYS_TOKENS):
            # Nothing is less likely than the marks, one of which ends a reply: they have no logit but 0.
            weight[-len(SPECIAL_TOKENS) :] = 0
        shard[key] = weight.astype(dtype)
        held += shard[key].nbytes
        if held >= _SHARD_BYTES:
            mx.save_safetensors(str(target / f"model-{number:02d}.safetensors"), shard)
            shard, held, number = {}, 0, number + 1
    mx.save_safetensors(str(target / f"model-{number:02d}.safetensors"), shard)
    _write_tokenizer(target)
    (target / "config.json").write_text(json.dumps(config))
    return target


def _write_tokenizer(folder: Path) -> None:
    """One token a character of ASCII text; all others of the vocabulary are words that no text is split into.

    No token is a part of a character, so that each one that is said is text at once.
    """
    alphabet = sorted(_BYTE_LEVEL_ASCII)
    fillers = [f"word{i}" for i in range(len(alphabet), VOCABULARY - len(SPECIAL_TOKENS))]
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet + fillers)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in SPECIAL_TOKENS])
    (folder / "tokenizer.json").write_text(tokenizer.to_str())
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": SPECIAL_TOKENS[1],
        "clean_up_tokenization_spaces": False,
        "chat_template": CHATML,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
