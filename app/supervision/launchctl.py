"""Puts a launchd job onto a Mac and takes it off again: as steps that can be shown before they are taken.

Knows what launchctl(1) and the folders of launchd are called; what a job says is `launchd.py`'s.
"""

import grp
import os
import pwd
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

from app.clock import Clock, monotonic
from app.errors import StartError
from app.supervision.launchd import Job, Kind, newsyslog_rule, property_list

LAUNCHCTL = "/bin/launchctl"
RULES = Path("/etc/newsyslog.d")
LONGEST_END_SECONDS = 3600.0
"""Only for a launchd that does not answer: by itself it ends a job after its ExitTimeOut."""
_POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class MakeFolder:
    """A folder that has to be there; `owner` is (user, group) or None for whoever runs this."""

    path: Path
    mode: int
    owner: tuple[str, str] | None


@dataclass(frozen=True, slots=True)
class WriteFile:
    """A file with its content, whole or not at all."""

    path: Path
    content: bytes
    mode: int


@dataclass(frozen=True, slots=True)
class RemoveFile:
    """A file that has to be gone."""

    path: Path


@dataclass(frozen=True, slots=True)
class RunProgram:
    """A program; `may_fail` where the state it asks for may be there already."""

    argv: tuple[str, ...]
    may_fail: bool = False


@dataclass(frozen=True, slots=True)
class AwaitEnd:
    """A program that is asked again until it fails: launchd knows the job no more."""

    argv: tuple[str, ...]
    seconds: float


Step = MakeFolder | WriteFile | RemoveFile | RunProgram | AwaitEnd


@dataclass(frozen=True, slots=True)
class Place:
    """Where a job is installed: the folder of its property list, and launchd's name of the domain."""

    folder: Path
    domain: str

    def file(self, label: str) -> Path:
        """The property list; launchd wants the label for its name."""
        return self.folder / f"{label}.plist"


def place_of(kind: Kind, *, home: Path, uid: int) -> Place:
    """The machine's place for daemons, or that of the user's agents."""
    if kind is Kind.DAEMON:
        return Place(Path("/Library/LaunchDaemons"), "system")
    return Place(home / "Library/LaunchAgents", f"gui/{uid}")


def install_steps(job: Job, place: Place) -> tuple[Step, ...]:
    """What puts the job there and starts it; one that is there already is stopped first and replaced."""
    daemon = job.kind is Kind.DAEMON
    owner = (job.user, job.group) if daemon else None
    file = place.file(job.label)
    rule = [WriteFile(RULES / f"{job.label}.conf", newsyslog_rule(job).encode(), 0o644)] if daemon else []
    return (
        MakeFolder(job.working_folder, 0o700, owner),
        MakeFolder(job.log_folder, 0o750, owner),
        *([] if daemon else [MakeFolder(place.folder, 0o755, None)]),
        *_stop(f"{place.domain}/{job.label}"),
        WriteFile(file, property_list(job), 0o644),
        *rule,
        # A job that was disabled once stays so, whatever its property list says.
        RunProgram((LAUNCHCTL, "enable", f"{place.domain}/{job.label}")),
        RunProgram((LAUNCHCTL, "bootstrap", place.domain, str(file))),
    )


def uninstall_steps(label: str, kind: Kind, place: Place) -> tuple[Step, ...]:
    """What stops the job and takes it away; its logs, its models and its settings stay."""
    rule = [RemoveFile(RULES / f"{label}.conf")] if kind is Kind.DAEMON else []
    return (
        *_stop(f"{place.domain}/{label}"),
        RemoveFile(place.file(label)),
        *rule,
    )


def _stop(target: str) -> tuple[Step, ...]:
    """Two steps: bootout may return before the drain is over, and until then bootstrap fails."""
    return (
        RunProgram((LAUNCHCTL, "bootout", target), may_fail=True),
        AwaitEnd((LAUNCHCTL, "print", target), LONGEST_END_SECONDS),
    )


def status_steps(label: str, place: Place) -> tuple[Step, ...]:
    """What shows launchd's view of the job."""
    return (RunProgram((LAUNCHCTL, "print", f"{place.domain}/{label}")),)


def describe(step: Step) -> str:
    """One line a person could type, or nearly."""
    match step:
        case MakeFolder(path, mode, owner):
            return f"mkdir -m {mode:o} {path}" + (f" for {':'.join(owner)}" if owner else "")
        case WriteFile(path, content, mode):
            return f"write {path} (mode {mode:o}, {len(content)} bytes)"
        case RemoveFile(path):
            return f"rm -f {path}"
        case RunProgram(argv, may_fail):
            return " ".join(argv) + (" (may fail)" if may_fail else "")
        case AwaitEnd(argv, seconds):
            return f"{' '.join(argv)} (until it fails, for at most {seconds:g} seconds)"
        case _:
            assert_never(step)


def take(
    steps: Sequence[Step], *, clock: Clock = monotonic, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Take the steps one after the other; the first that fails ends it.

    Raises:
        StartError: a step failed; the message says which, and why.
    """
    for step in steps:
        try:
            _take(step, clock, sleep)
        except (OSError, LookupError) as error:
            reason = error.strerror if isinstance(error, OSError) else error.args[0]
            raise StartError(f"{describe(step)}: {reason}") from error


def _take(step: Step, clock: Clock, sleep: Callable[[float], None]) -> None:
    match step:
        case MakeFolder(path) if path.is_dir():
            return
        case MakeFolder():
            _make(step)
        case WriteFile(path, content, mode):
            beside = path.with_name(f".{path.name}")
            beside.write_bytes(content)
            beside.chmod(mode)
            beside.replace(path)
        case RemoveFile(path):
            path.unlink(missing_ok=True)
        case RunProgram(argv, may_fail):
            code = subprocess.run(argv, check=False, capture_output=may_fail).returncode  # noqa: S603 - no shell
            if code and not may_fail:
                raise StartError(f"{describe(step)}: ended with exit code {code}")
        case AwaitEnd():
            _await_end(step, clock, sleep)
        case _:
            assert_never(step)


def _make(step: MakeFolder) -> None:
    # First, so that an account that does not exist leaves no folder behind that is somebody else's.
    ids = (pwd.getpwnam(step.owner[0]).pw_uid, grp.getgrnam(step.owner[1]).gr_gid) if step.owner else None
    step.path.mkdir(parents=True)
    step.path.chmod(step.mode)
    if ids:
        os.chown(step.path, *ids)


def _await_end(step: AwaitEnd, clock: Clock, sleep: Callable[[float], None]) -> None:
    give_up = clock() + step.seconds
    while subprocess.run(step.argv, check=False, capture_output=True).returncode == 0:  # noqa: S603 - no shell
        if clock() > give_up:
            raise StartError(f"{describe(step)}: it has not ended")
        sleep(_POLL_SECONDS)
