"""Finds, loads and proves a model. Engine thread only; whatever is wrong becomes one sentence."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mlx.core as mx
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
from mlx.utils import tree_flatten
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import DEFAULT_ALLOW_PATTERNS, load

from app.chat import NAMES_OF_OURS
from app.engine.demo import DEMO_NAME, Progress, demo_model
from app.engine.device import on_cpu
from app.engine.hub_download import fetch
from app.engine.payload import cache_kinds, cache_signature, is_truncatable
from app.errors import ModelError

_DEFAULT_CONTEXT_LENGTH = 8192
"""For a model whose config names no length; generous for the small models that leave it out."""


_FINDING, _READING = "finding the model", "loading the weights"
"""What is told of the steps, after the download, where there is one."""

_READ_BYTES = 64 * 2**20
"""How much is read before that is told: large enough to cost nothing, small enough to be seen to move."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSource:
    """Which model to load. An empty `path` is the embedded demo model."""

    path: str = ""
    alias: str = ""
    revision: str = ""
    adapter_path: str = ""
    trust_remote_code: bool = False
    chat_template: str = ""
    context_length: int | None = None
    more_aliases: tuple[str, ...] = ()
    template_kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """A model on the device, and what is known of it. `network` may only be used on the engine thread.

    `folder`: where its files are on this machine.
    """

    name: str
    aliases: tuple[str, ...]
    family: str
    network: Any
    tokenizer: Any
    context_length: int
    cache_signature: str
    cache_kinds: tuple[str, ...]
    truncatable: bool
    adapter: str
    folder: Path
    template_kwargs: Mapping[str, Any] = field(default_factory=dict)


def load_model(source: ModelSource, *, cache_folder: Path, progress: Progress) -> LoadedModel:
    """Load a model and its tokenizer.

    Raises:
        ModelError: it cannot be found, read or used; the message says which and what to do.
    """
    path = source.path or str(demo_model(cache_folder, dtype=demo_dtype(), progress=progress))
    if ours := sorted(NAMES_OF_OURS & source.template_kwargs.keys()):
        raise ModelError(f"{', '.join(ours)} cannot be set in model.template_kwargs: the server sets it")
    folder, network, tokenizer, config = _load(path, source, progress)
    name = source.alias or _name(source.path)
    caches = make_prompt_cache(network)
    return LoadedModel(
        name=name,
        aliases=tuple(sorted({_name(source.path), source.path, *source.more_aliases} - {"", name})),
        family=str(config.get("model_type", "unknown")),
        network=network,
        tokenizer=tokenizer,
        context_length=source.context_length or context_length(config),
        cache_signature=cache_signature(caches),
        cache_kinds=cache_kinds(caches),
        truncatable=is_truncatable(caches),
        adapter=source.adapter_path,
        folder=folder,
        template_kwargs=source.template_kwargs,
    )


def _load(path: str, source: ModelSource, progress: Progress) -> tuple[Path, Any, Any, dict[str, Any]]:
    folder = Path(path).expanduser()
    if not folder.exists() and _looks_like_a_path(path):
        raise ModelError(f"model folder {folder} does not exist")
    if folder.is_dir() and not (folder / "config.json").is_file():
        raise ModelError(f"{folder} is not a model folder: it has no config.json")
    if source.adapter_path and not Path(source.adapter_path).is_dir():
        raise ModelError(f"adapter folder {source.adapter_path} does not exist")
    # Given at load, because mlx-lm finds in the template how the model writes its tool calls.
    template = {"chat_template": _read_template(source.chat_template)} if source.chat_template else {}
    try:
        if not folder.exists():
            folder = fetch(path, source.revision, DEFAULT_ALLOW_PATTERNS, progress)
        progress(_FINDING, 0, 1)
        network, tokenizer, config = load(
            str(folder),
            tokenizer_config={"trust_remote_code": source.trust_remote_code, **template},
            adapter_path=source.adapter_path or None,
            return_config=True,
            trust_remote_code=source.trust_remote_code,
            # Weights are read as they are first used: below, where it can be told how far that is.
            lazy=True,
        )
        progress(_FINDING, 1, 1)
        _read_weights(network, progress)
    except HFValidationError as error:
        raise ModelError(f"{path!r} is neither a model folder nor a repository name: {error}") from error
    except (HfHubHTTPError, LocalEntryNotFoundError, ConnectionError) as error:
        raise ModelError(
            f"model {path!r} is not a folder on this machine and cannot be downloaded: {_first_line(error)}"
        ) from error
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise ModelError(f"model {path!r} cannot be loaded: {_first_line(error)}") from error
    return folder, network, tokenizer, config


def _read_weights(network: Any, progress: Progress) -> None:
    """Bring all weights into memory, some at a time."""
    weights = [weight for _, weight in tree_flatten(network.parameters())]
    done, total = 0, sum(weight.nbytes for weight in weights)
    progress(_READING, 0, total)
    waiting: list[mx.array] = []
    waiting_bytes = 0
    for weight in weights:
        waiting.append(weight)
        waiting_bytes += weight.nbytes
        if waiting_bytes >= _READ_BYTES or weight is weights[-1]:
            mx.eval(waiting)
            done += waiting_bytes
            waiting, waiting_bytes = [], 0
            progress(_READING, done, total)


def context_length(config: Mapping[str, Any]) -> int:
    """The longest context a model's config promises, in tokens."""
    for section in (config, config.get("text_config") or {}):
        for key in ("max_position_embeddings", "max_sequence_length", "n_positions"):
            value = section.get(key)
            if isinstance(value, int) and value > 0:
                return value
    return _DEFAULT_CONTEXT_LENGTH


def demo_dtype() -> mx.Dtype:
    """Of the demo model. On a CPU dense float32 is by far the fastest; GPUs prefer half the bytes."""
    return mx.float32 if on_cpu() else mx.bfloat16


def _name(path: str) -> str:
    if not path:
        return DEMO_NAME
    return Path(path).expanduser().resolve().name if Path(path).expanduser().exists() else path


def _looks_like_a_path(path: str) -> bool:
    return path.startswith((".", "/", "~")) or path.count("/") > 1


def _read_template(file: str) -> str:
    try:
        text = Path(file).expanduser().read_text()
    except OSError as error:
        raise ModelError(f"chat template {file} cannot be read: {error.strerror}") from error
    if file.endswith(".json"):
        try:
            return str(json.loads(text)["chat_template"])
        except (ValueError, KeyError, TypeError) as error:
            raise ModelError(f"chat template {file} is JSON without a chat_template text") from error
    return text


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
