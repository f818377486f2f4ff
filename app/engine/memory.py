"""What the device holds and may hold. Reads counters only, so any thread may ask."""

from collections.abc import Mapping

import mlx.core as mx

from app.engine.machine_memory import machine_memory_bytes

_ARRAY_SHARE = 2
_STORE_SHARE = 2


def device_memory() -> Mapping[str, int]:
    """Bytes by kind: `active` in live arrays, `cache` for new ones, `peak` of active, and the `limit`."""
    return {
        "active": mx.get_active_memory(),
        "cache": mx.get_cache_memory(),
        "peak": mx.get_peak_memory(),
        "limit": memory_limit_bytes(),
    }


def memory_limit_bytes() -> int:
    """What MLX should stay below: the GPU's recommended working set, its memory, or what the machine gives."""
    info = mx.device_info()
    for key in ("max_recommended_working_set_size", "total_memory", "memory_size"):
        value = info.get(key)
        if isinstance(value, int) and value > 0:
            return value
    return machine_memory_bytes()


def available_bytes(used_bytes: int) -> int:
    """For the snapshot store: half of what a model of `used_bytes` leaves; running requests need the rest."""
    return max((memory_limit_bytes() - used_bytes) // _STORE_SHARE, 1)


def default_max_arrays() -> int | None:
    """Half of the buffers that Metal lets a process hold; None where the device sets no such limit.

    Metal's limit counts buffers, not bytes: a store of many small states runs into it first.
    """
    limit = mx.device_info().get("resource_limit")
    return limit // _ARRAY_SHARE if isinstance(limit, int) and limit > 0 else None
