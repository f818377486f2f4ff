"""What the device holds and may hold. Reads counters only, but for `set_limits`; any thread may ask."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass

import mlx.core as mx
import psutil

from app.engine.machine_memory import machine_memory_bytes

_ARRAY_SHARE = 2
_STORE_SHARE = 2
_HEADROOM_SHARE = 16
_CACHE_SHARE = 2
_PROCESS = psutil.Process()
"""Ours. To make one reads its start, to ask it does not, and the engine thread asks."""


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """Most bytes that the process may use, and what of them is kept free of weights and states."""

    limit_bytes: int
    headroom_bytes: int

    def available_bytes(self, used_bytes: int) -> int:
        """For the snapshot store: half of what a model of `used_bytes` leaves; requests need the rest."""
        return max((self.limit_bytes - self.headroom_bytes - used_bytes) // _STORE_SHARE, 1)


def memory_limits(limit_bytes: int | None, headroom_bytes: int | None) -> MemoryLimits:
    """What was asked for; None: what the device is good for, and a sixteenth of the limit."""
    limit = memory_limit_bytes() if limit_bytes is None else limit_bytes
    return MemoryLimits(limit, limit // _HEADROOM_SHARE if headroom_bytes is None else headroom_bytes)


def set_limits(limits: MemoryLimits, *, cache_bytes: int | None) -> None:
    """Tell MLX where to stop, and how much of what was freed it may keep; None: half of the headroom.

    Allocators that keep nothing and wait for nothing, the CPU's, take note of neither.
    """
    mx.set_memory_limit(limits.limit_bytes)
    mx.set_cache_limit(limits.headroom_bytes // _CACHE_SHARE if cache_bytes is None else cache_bytes)


def device_memory(limit_bytes: int) -> Mapping[str, int]:
    """Bytes by kind: `active` in live arrays, `cache` for new ones, `peak`, `limit`, `footprint`."""
    return {
        "active": mx.get_active_memory(),
        "cache": mx.get_cache_memory(),
        "peak": mx.get_peak_memory(),
        "limit": limit_bytes,
        "footprint": charged_bytes(),
    }


def used_bytes() -> int:
    """What this process takes of the memory: as the system counts, or as MLX does where that is more.

    Memory that a GPU driver holds for a process is not always part of what the system charges it with.
    """
    return max(charged_bytes(), mx.get_active_memory() + mx.get_cache_memory())


def charged_bytes() -> int:
    """What the system charges the process with, and ends it for."""
    # On macOS what is compressed or not shared counts, which is not what is resident.
    return int(_PROCESS.memory_full_info().uss if sys.platform == "darwin" else _PROCESS.memory_info().rss)


def memory_limit_bytes() -> int:
    """What MLX should stay below: the GPU's recommended working set, its memory, or the machine's."""
    info = mx.device_info()
    for key in ("max_recommended_working_set_size", "total_memory", "memory_size"):
        value = info.get(key)
        if isinstance(value, int) and value > 0:
            return value
    return machine_memory_bytes()


def default_max_arrays() -> int | None:
    """Half of the buffers that Metal lets a process hold; None where the device sets no such limit.

    Metal's limit counts buffers, not bytes: a store of many small states runs into it first.
    """
    limit = mx.device_info().get("resource_limit")
    return limit // _ARRAY_SHARE if isinstance(limit, int) and limit > 0 else None
