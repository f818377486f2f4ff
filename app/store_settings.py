"""What the settings ask of the snapshot store, once the model is known. Knows no MLX."""

from collections.abc import Callable

from app.settings.schema import Settings
from app.snapshots.limits import Limits


def store_limits(
    settings: Settings, default_capacity: int, default_arrays: Callable[[], int | None]
) -> Limits:
    """The store's limits; the defaults are for what was left to us."""
    asked = settings.snapshots
    max_arrays = asked.max_arrays
    return Limits(
        capacity_bytes=default_capacity if asked.capacity_bytes == "auto" else asked.capacity_bytes,
        max_entries=asked.max_entries,
        max_arrays=default_arrays() if max_arrays == "auto" else None if max_arrays == "off" else max_arrays,
        ttl_seconds=None if asked.ttl_seconds == "off" else asked.ttl_seconds,
        min_prefix_tokens=asked.min_prefix_tokens,
        enabled=asked.enabled,
        supersede=asked.supersede,
        keep_ancestors=asked.keep_ancestors,
    )


def keeps_anchors(settings: Settings) -> bool:
    """Whether the state of each system prompt is kept."""
    return settings.snapshots.enabled and settings.snapshots.system_anchors


def stores_completions(settings: Settings, *, truncatable: bool) -> bool:
    """`auto`: only where the one entry can stand in for the boundary, so that a conversation keeps one."""
    wanted = settings.snapshots.completions
    return truncatable if wanted == "auto" else wanted == "always"
