"""A model's shape without its weights: what its state weighs, and what the weights would.

MLX reads and computes nothing before it is asked to, so even the largest model is built in a moment.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
from mlx.utils import tree_flatten
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import load_model

from app.engine.demo import DEMO_NAME, Progress, demo_model
from app.engine.loader import ModelSource, context_length, demo_dtype
from app.engine.payload import cache_kinds, is_truncatable
from app.engine.state_size import measure
from app.errors import ModelError
from app.snapshots.sizing import StateSize

_DESCRIPTION = ["*.json", "*.py"]
"""The files of a repository that say what a model is like; a few hundred kilobytes."""

_USUAL_DTYPE = "bfloat16"


@dataclass(frozen=True, slots=True, kw_only=True)
class Blueprint:
    """What can be told of a model before it is loaded. `weights_bytes`: None where nothing says it."""

    name: str
    family: str
    cache_kinds: tuple[str, ...]
    truncatable: bool
    context_length: int
    size: StateSize
    weights_bytes: int | None


def read_blueprint(source: ModelSource, *, cache_folder: Path, progress: Progress) -> Blueprint:
    """Look at a model: a folder, a repository that was downloaded before, or only its description.

    Where the weights are on this machine, their types are known; else the config's `dtype` stands for them.

    Raises:
        ModelError: it cannot be found or is not understood.
    """
    folder = _folder(source, cache_folder, progress)
    if not (folder / "config.json").is_file():
        raise ModelError(f"{folder} is not a model folder: it has no config.json")
    has_weights = any(folder.glob("model*.safetensors"))
    try:
        network, config = load_model(
            folder, lazy=True, strict=has_weights, trust_remote_code=source.trust_remote_code
        )
        if not has_weights:
            network.set_dtype(_dtype(config))
        size = measure(network)
        caches = make_prompt_cache(network)
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, AttributeError) as error:
        raise ModelError(f"the model in {folder} is not understood: {error}") from error
    held = sum(array.nbytes for _, array in tree_flatten(network.parameters()))
    return Blueprint(
        name=source.alias or source.path or DEMO_NAME,
        family=str(config.get("model_type", "unknown")),
        cache_kinds=cache_kinds(caches),
        truncatable=is_truncatable(caches),
        context_length=source.context_length or context_length(config),
        size=size,
        weights_bytes=held if has_weights else _declared_bytes(folder),
    )


def _folder(source: ModelSource, cache_folder: Path, progress: Progress) -> Path:
    if not source.path:
        return demo_model(cache_folder, dtype=demo_dtype(), progress=progress)
    folder = Path(source.path).expanduser()
    if folder.exists():
        return folder
    where: dict[str, Any] = {"repo_id": source.path, "revision": source.revision or None}
    try:
        try:
            return Path(snapshot_download(**where, local_files_only=True))
        except LocalEntryNotFoundError:
            return Path(snapshot_download(**where, allow_patterns=_DESCRIPTION))
    except (HFValidationError, HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise ModelError(
            f"model {source.path!r} is neither a folder on this machine nor can its description be "
            f"downloaded: {str(error).strip().splitlines()[0]}"
        ) from error


def _dtype(config: dict[str, Any]) -> mx.Dtype:
    """What the config says that its numbers are; a model's state has the type of its activations."""
    described = {**(config.get("text_config") or {}), **config}
    named = described.get("dtype") or described.get("torch_dtype") or _USUAL_DTYPE
    dtype = getattr(mx, str(named), None)
    return dtype if isinstance(dtype, mx.Dtype) else mx.bfloat16


def _declared_bytes(folder: Path) -> int | None:
    """The size that a model in several files states in its index."""
    index = folder / "model.safetensors.index.json"
    if not index.is_file():
        return None
    total = json.loads(index.read_text()).get("metadata", {}).get("total_size")
    return total if isinstance(total, int) else None
