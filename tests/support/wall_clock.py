"""A wall clock that a test sets while a server runs: libfaketime, with the monotonic clock left alone."""

import os
from pathlib import Path

LIBRARIES = "x86_64-linux-gnu/faketime", "aarch64-linux-gnu/faketime", "faketime"
LIBRARY = "libfaketimeMT.so.1"


class WallClock:
    """The wall clock of the processes that are started with its environment.

    To a process this is what the sleep of a laptop looks like as well: Python's monotonic clock stands still
    meanwhile, on Linux (CLOCK_MONOTONIC) as on macOS (mach_absolute_time), and the wall clock goes on.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / "wall-clock"
        self.offset_seconds = 0
        self.set(0)

    def set(self, offset_seconds: int) -> None:
        """Have it differ by so much from the real one; processes see it within a second."""
        beside = self._file.with_suffix(".new")
        beside.write_text(f"{offset_seconds:+d}\n")
        beside.rename(self._file)
        self.offset_seconds = offset_seconds

    @property
    def environment(self) -> dict[str, str]:
        """For the process whose clock it is to be."""
        return {
            "LD_PRELOAD": ":".join(filter(None, (os.environ.get("LD_PRELOAD"), str(_library())))),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            # Read once a second: where each look at the clock reads a file, threads wait for each other.
            "FAKETIME_CACHE_DURATION": "1",
            "NO_FAKE_STAT": "1",
        }


def _library() -> Path:
    for folder in LIBRARIES:
        if (found := Path("/usr/lib") / folder / LIBRARY).exists():
            return found
    raise AssertionError(f"{LIBRARY} is not installed; Debian has it in the package libfaketime")
