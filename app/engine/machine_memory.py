"""How much of this machine's memory the process may use: what is built in, or less where a cgroup says so.

Reads the kernel's files. Knows no MLX.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

MEMBERSHIP = Path("/proc/self/cgroup")
"""Says which control groups the process is in, a line for each hierarchy; Linux alone has it."""

HIERARCHIES = Path("/sys/fs/cgroup")
"""Where the hierarchies are mounted."""


def machine_memory_bytes(*, membership: Path = MEMBERSHIP, hierarchies: Path = HIERARCHIES) -> int:
    """The machine's memory, or the least that a control group of the process, or one above it, allows.

    Both versions of control groups are read: `memory.limit_in_bytes` of the first, `memory.max` of the
    second.
    """
    built_in = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(built_in, *_limits(membership, hierarchies), built_in)


def _limits(membership: Path, hierarchies: Path) -> Iterator[int]:
    for file in _limit_files(membership, hierarchies):
        # Files that are not there belong to a version that is not in use, or to groups around a container.
        # Without a limit, the second version says `max`.
        with contextlib.suppress(OSError, ValueError):
            if (limit := int(file.read_text())) > 0:
                yield limit


def _limit_files(membership: Path, hierarchies: Path) -> Iterator[Path]:
    """Of each group that the process is in, and all above it: a limit holds for everything below."""
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        number, controllers, group = line.split(":", 2)
        if number == "0":
            root, name = hierarchies, "memory.max"
        elif "memory" in controllers.split(","):
            root, name = hierarchies / "memory", "memory.limit_in_bytes"
        else:
            continue
        path = PurePosixPath(group)
        for each in (path, *path.parents):
            yield root / each.relative_to("/") / name
