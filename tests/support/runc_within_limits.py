#!/usr/bin/env python3
"""An OCI runtime: runc, with resource limits no higher than this process may set.

podman asks for a million open files even where the machine that tests has no right to raise its own limit.
"""

import json
import os
import resource
import shutil
import sys
from pathlib import Path


def bundle_of(arguments: list[str]) -> Path:
    """The folder whose config.json describes the container."""
    for at, argument in enumerate(arguments):
        if argument in ("--bundle", "-b"):
            return Path(arguments[at + 1])
        if argument.startswith("--bundle="):
            return Path(argument.partition("=")[2])
    return Path.cwd()


def lower_limits(path: Path) -> None:
    """Cut each limit in the container's description to this process's hard limit."""
    config = json.loads(path.read_text())
    for limit in config.get("process", {}).get("rlimits", []):
        hard = resource.getrlimit(getattr(resource, limit["type"]))[1]
        if hard != resource.RLIM_INFINITY:
            limit["hard"] = min(limit["hard"], hard)
            limit["soft"] = min(limit["soft"], hard)
    path.write_text(json.dumps(config))


def main(arguments: list[str]) -> None:
    """Become runc."""
    if "create" in arguments or "run" in arguments:
        lower_limits(bundle_of(arguments) / "config.json")
    runc = shutil.which("runc", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    assert runc is not None, "runc is not installed"
    os.execv(runc, ["runc", *arguments])


if __name__ == "__main__":
    main(sys.argv[1:])
