"""The command among other mounts than the machine's: `python -m tests.support.mounted SCRIPT …`.

SCRIPT is what a shell mounts before `python -m app …` takes its place. Both run in a user namespace, where
anybody may mount; nothing of it is seen outside, and all of it is gone with the process.
"""

import os
import shutil
import sys
from pathlib import Path


def read_only(folder: Path) -> str:
    """A line of a script: nothing in the folder can be written any more, not even by root."""
    return f'mount --bind "{folder}" "{folder}"; mount -o remount,bind,ro "{folder}"'


def small(folder: Path, size_bytes: int) -> str:
    """A line of a script: the folder is empty and has so much room."""
    return f'mount -t tmpfs -o size={size_bytes},mode=755 tmpfs "{folder}"'


def program_with(*script: str) -> tuple[str, ...]:
    """What Python runs for the command with these mounts."""
    return ("-m", "tests.support.mounted", "; ".join(script))


def main() -> None:
    """Become the command, in the same process, so that signals reach it."""
    script, *arguments = sys.argv[1:]
    unshare = shutil.which("unshare")
    assert unshare is not None, "unshare is not installed; it belongs to util-linux"
    # A BLAS that is preloaded starts threads at once, and a process with threads gets no namespace.
    preload = os.environ.pop("LD_PRELOAD", "")
    become = f'{script}; exec env LD_PRELOAD="{preload}" "$@"'
    shell = ["sh", "-ec", become, "sh", sys.executable, "-m", "app", *arguments]
    os.execv(unshare, [unshare, "--user", "--map-root-user", "--mount", *shell])


if __name__ == "__main__":
    main()
