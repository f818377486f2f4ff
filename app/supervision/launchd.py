"""A launchd job for the server: its property list, and the newsyslog rule for its log. Touches nothing.

Keys are those of launchd.plist(5). Knows no settings and no command line but the one it is given.
"""

import math
import plistlib
import re
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path, PurePosixPath

from app.errors import ConfigurationError

DEFAULT_LABEL = "org.samovar.server"
LEAST_THROTTLE_SECONDS = 60
"""launchd's own 10 seconds let a model of many gigabytes be loaded again before the memory is given back."""
LEAST_EXIT_SECONDS = 180
"""launchd's own 20 seconds end in SIGKILL, after which macOS may keep a large model's memory wired."""
AFTER_DRAIN_SECONDS = 120
"""Told apart from the drain: the farewell to clients, the engine's last step and its unloading, telemetry."""

ROTATED_KILOBYTES = 100 * 1024
KEPT_LOGS = 7

_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)+")
_ACCOUNT = re.compile(r"[A-Za-z_][A-Za-z0-9._-]*")


class Kind(StrEnum):
    """Who starts the job: the machine at boot, or a user's login."""

    DAEMON = "daemon"
    AGENT = "agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Everything the property list says.

    Args:
        kind: daemon or agent.
        label: its name, reverse DNS; also the file's name.
        program: the installed command.
        arguments: what follows the command.
        log_folder: where `samovar.log` goes.
        working_folder: where the server runs, and keeps what outlives it.
        drain_seconds: as the server is set; launchd waits longer than that.
        throttle_seconds: least time between two starts.
        open_files: most file descriptors: every connection and every model file takes one.
        user, group: the account a daemon runs as; an agent has its user's.
        environment: variables; everybody on the machine can read them.

    Raises:
        ConfigurationError: launchd or newsyslog would not take it; the message says which value.
    """

    kind: Kind
    label: str
    program: Path
    arguments: tuple[str, ...]
    log_folder: Path
    working_folder: Path
    drain_seconds: float
    throttle_seconds: int = LEAST_THROTTLE_SECONDS
    open_files: int = 8192
    user: str = ""
    group: str = ""
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what cannot work, before it is written anywhere."""
        if not _LABEL.fullmatch(self.label):
            raise ConfigurationError(
                f"label {self.label!r}: must be a name in reverse DNS, such as {DEFAULT_LABEL}"
            )
        for name in ("program", "log_folder", "working_folder"):
            if not PurePosixPath(getattr(self, name)).is_absolute():
                raise ConfigurationError(f"{name} {getattr(self, name)}: must be an absolute path")
        if re.search(r"\s|#", str(self.log_folder)):
            raise ConfigurationError(
                f"log_folder {self.log_folder}: must hold no space and no #: newsyslog could not name it"
            )
        if self.throttle_seconds < LEAST_THROTTLE_SECONDS:
            raise ConfigurationError(
                f"throttle_seconds {self.throttle_seconds}: must not be below {LEAST_THROTTLE_SECONDS}"
            )
        if self.open_files < 1:
            raise ConfigurationError(f"open_files {self.open_files}: must not be below 1")
        accounts = {"user": self.user, "group": self.group}
        for name, account in accounts.items():
            if self.kind is Kind.DAEMON and not _ACCOUNT.fullmatch(account):
                raise ConfigurationError(f"{name} {account!r}: a daemon needs the name of an account")
            if self.kind is Kind.AGENT and account:
                raise ConfigurationError(f"{name} {account!r}: an agent runs as whoever logs in")

    @property
    def log(self) -> Path:
        """The file of standard output and error."""
        return self.log_folder / "samovar.log"

    @property
    def exit_seconds(self) -> int:
        """How long launchd waits after SIGTERM."""
        return max(LEAST_EXIT_SECONDS, math.ceil(self.drain_seconds) + AFTER_DRAIN_SECONDS)


def property_list(job: Job) -> bytes:
    """The job as launchd reads it, in XML."""
    keys: dict[str, object] = {
        "Label": job.label,
        "ProgramArguments": [str(job.program), *job.arguments],
        "WorkingDirectory": str(job.working_folder),
        "EnvironmentVariables": dict(job.environment),
        "RunAtLoad": True,
        # A stop that was asked for stays a stop; whatever else happens is started again.
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": job.throttle_seconds,
        "ExitTimeOut": job.exit_seconds,
        # Anything less lets launchd slow down the processor and the disk.
        "ProcessType": "Interactive",
        "SoftResourceLimits": {"NumberOfFiles": job.open_files},
        "HardResourceLimits": {"NumberOfFiles": job.open_files},
        "Umask": 0o077,
        "StandardOutPath": str(job.log),
        "StandardErrorPath": str(job.log),
    }
    if job.kind is Kind.DAEMON:
        keys |= {"UserName": job.user, "GroupName": job.group}
    return plistlib.dumps(keys, sort_keys=False)


def newsyslog_rule(job: Job) -> str:
    """The rotation of the log as newsyslog.conf(5) has it: by size, with no signal, and not compressed.

    The server notices the new file within seconds. What it writes until then is in the old one, and would
    be lost in a file that is being compressed.
    """
    owner = f"{job.user}:{job.group}" if job.kind is Kind.DAEMON else ""
    columns = (str(job.log), owner, "640", str(KEPT_LOGS), str(ROTATED_KILOBYTES), "*", "N")
    return (
        "# logfilename  [owner:group]  mode  count  size(KB)  when  flags\n"
        + "  ".join(column for column in columns if column)
        + "\n"
    )
