"""What a result was measured on, and how measurements are summed up. Knows no server."""

import importlib.metadata
import os
import platform
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PACKAGES = ("samovar", "mlx", "mlx-lm", "litestar", "granian", "prometheus-client", "opentelemetry-sdk")


def describe_machine() -> dict[str, Any]:
    """Processor, memory, Python and the versions that matter; names no host."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "blas_preloaded": _preloads_blas(),
        "versions": {name: importlib.metadata.version(name) for name in PACKAGES},
    }


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, smallest and largest of some measurements, of which there has to be one."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _preloads_blas() -> bool:
    """Whether this process was started with a system's BLAS in it, as servers that it starts are then."""
    loaded = Path("/proc/self/maps")
    return loaded.exists() and "/libblas.so" in loaded.read_text()
