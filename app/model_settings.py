"""Which model the settings ask for, and whether this machine can run one. Imports MLX when asked."""

import importlib
from typing import TYPE_CHECKING

from app.errors import StartError
from app.settings.schema import Settings

if TYPE_CHECKING:
    from app.engine.loader import ModelSource


def require_backend() -> None:
    """Raise StartError where MLX cannot run."""
    try:
        importlib.import_module("mlx.core")
    except ImportError as error:
        raise StartError(
            "MLX has no backend on this machine; install one with `pip install samovar[cpu]` on Linux "
            f"(or cuda12, cuda13 with an NVIDIA GPU): {error}"
        ) from error


def model_source(settings: Settings) -> "ModelSource":
    """Which model the settings ask for."""
    from app.engine.loader import ModelSource  # noqa: PLC0415 - imports MLX

    asked = settings.model
    return ModelSource(
        path=asked.path,
        alias=asked.alias,
        revision=asked.revision,
        adapter_path=asked.adapter_path,
        trust_remote_code=asked.trust_remote_code,
        chat_template=asked.chat_template,
        context_length=None if asked.context_length == "auto" else asked.context_length,
        more_aliases=tuple(name for each in asked.aliases.split(",") if (name := each.strip())),
        template_kwargs=asked.template_kwargs,
    )
