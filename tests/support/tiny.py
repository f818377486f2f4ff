"""Tiny models of mlx-lm's own classes with random weights and a byte-level tokenizer, as model folders.

A few hundred kB each, they run in milliseconds through exactly the code that real models run through.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten, tree_map
from mlx_lm.utils import _get_classes
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

SPECIAL_TOKENS = ("<|im_start|>", "<|im_end|>")
VOCABULARY_SIZE = 256 + len(SPECIAL_TOKENS)
CONTEXT_LENGTH = 8192

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + (message['content'] or '') + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

_COMMON = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": VOCABULARY_SIZE,
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": CONTEXT_LENGTH,
    "tie_word_embeddings": False,
}

FAMILIES: Mapping[str, Mapping[str, Any]] = {
    "llama": {**_COMMON, "model_type": "llama", "num_hidden_layers": 2, "rope_theta": 10000.0},
    "qwen3_next": {
        **_COMMON,
        "model_type": "qwen3_next",
        "num_hidden_layers": 4,
        "head_dim": 16,
        "rope_theta": 10000.0,
        "partial_rotary_factor": 0.5,
        "linear_num_value_heads": 4,
        "linear_num_key_heads": 2,
        "linear_key_head_dim": 32,
        "linear_value_head_dim": 32,
        "linear_conv_kernel_dim": 4,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "decoder_sparse_step": 1,
        "shared_expert_intermediate_size": 64,
        "mlp_only_layers": [],
        "moe_intermediate_size": 64,
        "full_attention_interval": 2,
    },
    "lfm2": {
        "model_type": "lfm2",
        "vocab_size": VOCABULARY_SIZE,
        "hidden_size": 64,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": CONTEXT_LENGTH,
        "norm_eps": 1e-5,
        "conv_bias": False,
        "conv_L_cache": 3,
        "block_dim": 64,
        "block_ff_dim": 128,
        "block_multiple_of": 32,
        "block_ffn_dim_multiplier": 1.0,
        "block_auto_adjust_ff_dim": False,
        "full_attn_idxs": [1, 3],
    },
    "gemma3_text": {
        **_COMMON,
        "model_type": "gemma3_text",
        "num_hidden_layers": 4,
        "head_dim": 16,
        "query_pre_attn_scalar": 16,
        "sliding_window": 64,
        "sliding_window_pattern": 2,
        "rope_theta": 10000.0,
    },
}
"""family → a small configuration: dense, two hybrids that only whole snapshots serve, sliding window."""

_WEIGHT_SCALE = 3.0
"""mlx's initial weights are so small that a random model says one byte for ever; larger ones make it vary."""


def make_tiny_model(folder: Path, family: str, *, seed: int = 0, chat_template: str = CHATML) -> Path:
    """Write a model folder that `mlx_lm.load` reads; the same seed gives the same weights."""
    config = dict(FAMILIES[family], eos_token_id=257)
    mx.random.seed(seed)
    model_class, args_class = _get_classes(config)
    model = model_class(args_class.from_dict(config))
    weights = tree_map(lambda w: w * _WEIGHT_SCALE if w.ndim > 1 else w, model.parameters())
    folder.mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(str(folder / "model.safetensors"), dict(tree_flatten(weights)))
    (folder / "config.json").write_text(json.dumps(config))
    write_byte_tokenizer(folder, chat_template=chat_template)
    return folder


def write_byte_tokenizer(folder: Path, *, chat_template: str = CHATML) -> None:
    """A tokenizer with one token a byte, and ChatML's two marks as special tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in SPECIAL_TOKENS])
    (folder / "tokenizer.json").write_text(tokenizer.to_str())
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": SPECIAL_TOKENS[1],
        "clean_up_tokenization_spaces": False,
        "chat_template": chat_template,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
