"""What the settings ask of memory, in the engine's and the scheduler's terms. Imports MLX when asked."""

from typing import TYPE_CHECKING

import structlog

from app.errors import ModelError
from app.scheduler.memory_plan import MemoryPlan
from app.settings.schema import Settings
from app.settings.units import format_bytes
from app.snapshots.sizing import StateSize

if TYPE_CHECKING:
    from app.engine.memory import MemoryLimits

LEAST_TOKENS = 256
"""A server that has no memory for so much text, prompt and reply together, serves nobody."""

log = structlog.get_logger(__name__)


def asked_limits(settings: Settings) -> "MemoryLimits":
    """The limit and the headroom, each as it was set or as the device has it."""
    from app.engine.memory import memory_limits  # noqa: PLC0415 - imports MLX

    memory = settings.memory
    return memory_limits(given(memory.limit_bytes), given(memory.headroom_bytes))


def given(setting: int | str) -> int | None:
    """A setting's number; None where it is left to us."""
    return setting if isinstance(setting, int) else None


def plan_memory(
    settings: Settings, limits: "MemoryLimits", *, model: str, used_bytes: int, size: StateSize
) -> MemoryPlan:
    """How requests and snapshots share what a loaded model leaves.

    Raises:
        ModelError: it leaves nothing to serve anybody with.
    """
    plan = MemoryPlan(
        limit_bytes=limits.limit_bytes,
        headroom_bytes=limits.headroom_bytes,
        fixed_bytes=used_bytes,
        state_bytes=size.nbytes,
        reply_tokens=settings.memory.reply_tokens,
    )
    if plan.longest(LEAST_TOKENS) < LEAST_TOKENS:
        raise ModelError(
            f"model {model!r} leaves no memory for requests: {format_bytes(used_bytes)} of"
            f" {format_bytes(limits.limit_bytes)} are in use once it is loaded, and"
            f" {format_bytes(limits.headroom_bytes)} are to stay free; take a smaller model, or set"
            " memory.limit_bytes or memory.headroom_bytes"
        )
    return plan


def context_that_fits(plan: MemoryPlan, context_length: int) -> int:
    """The model's context, or as much of it as memory has room for where nothing else is."""
    fits = plan.longest(context_length)
    if fits < context_length:
        log.warning("memory has no room for the whole context", tokens=fits, context_length=context_length)
    return fits
