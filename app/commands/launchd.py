"""`samovar launchd`: the server as a launchd job of a Mac, shown, installed, removed or asked after."""

import argparse
import os
import sys
from pathlib import Path

from app.commands.arguments import (
    DONE,
    Commands,
    add_group,
    add_settings_verb,
    add_verb,
    load_for_service,
    settings_again,
)
from app.errors import StartError
from app.settings.keys import ENVIRONMENT_PREFIX
from app.settings.layers import system_file
from app.supervision.launchctl import (
    Place,
    Step,
    describe,
    install_steps,
    place_of,
    status_steps,
    take,
    uninstall_steps,
)
from app.supervision.launchd import (
    DEFAULT_LABEL,
    Job,
    Kind,
    newsyslog_rule,
    property_list,
)

_ACCOUNT = "_samovar"
_PATH = "/usr/bin:/bin:/usr/sbin:/sbin"


def register(commands: Commands) -> None:
    """Add the verbs."""
    group = add_group(commands, "launchd", "run the server as a launchd job of a Mac")
    render = add_settings_verb(group, "render", _render, "print the job's property list")
    _add_job(render)
    render.add_argument(
        "--rule", action="store_true", help="print the newsyslog rule that rotates the log instead"
    )
    install = add_settings_verb(group, "install", _install, "install the job and start it, or replace it")
    _add_job(install)
    remove = add_verb(group, "uninstall", _uninstall, "stop the job and remove it; logs and models stay")
    status = add_verb(group, "status", _status, "print what launchd knows of the job")
    for verb in (remove, status):
        _add_name(verb)
    for verb in (install, remove, status):
        verb.add_argument(
            "--dry-run", action="store_true", help="only print what would be done; works on every system"
        )


def _add_name(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--label", default=DEFAULT_LABEL, help=f"name of the job. Default: {DEFAULT_LABEL}.")
    verb.add_argument(
        "--agent", action="store_true", help="a LaunchAgent of this user, instead of a LaunchDaemon"
    )


def _add_job(verb: argparse.ArgumentParser) -> None:
    _add_name(verb)
    verb.add_argument(
        "--program", type=Path, metavar="FILE", help="the command to start. Default: this very installation."
    )
    for flag in ("--user", "--group"):
        verb.add_argument(flag, help=f"account a daemon runs as. Default: {_ACCOUNT}.")
    verb.add_argument("--log-folder", type=Path, metavar="FOLDER", help="Default: Logs/Samovar in Library.")
    verb.add_argument(
        "--working-folder",
        type=Path,
        metavar="FOLDER",
        help="where the server runs and keeps its files. Default: Application Support/Samovar in Library.",
    )
    verb.add_argument(
        "--throttle-seconds",
        type=int,
        default=60,
        metavar="N",
        help="least time between starts. Default: 60.",
    )
    verb.add_argument(
        "--open-files", type=int, default=8192, metavar="N", help="most open files. Default: 8192."
    )


def _render(arguments: argparse.Namespace) -> int:
    job = _job(arguments)
    sys.stdout.write(newsyslog_rule(job) if arguments.rule else property_list(job).decode())
    return DONE


def _install(arguments: argparse.Namespace) -> int:
    job = _job(arguments)
    if not arguments.dry_run:
        _require_mac()
        if not os.access(job.program, os.X_OK):
            raise StartError(f"{job.program}: there is no such program; name it with --program")
        _require_rights(job.kind)
    return _go(install_steps(job, _place(job.kind)), dry_run=arguments.dry_run)


def _uninstall(arguments: argparse.Namespace) -> int:
    kind = _kind(arguments)
    if not arguments.dry_run:
        _require_mac()
        _require_rights(kind)
    return _go(uninstall_steps(arguments.label, kind, _place(kind)), dry_run=arguments.dry_run)


def _status(arguments: argparse.Namespace) -> int:
    if not arguments.dry_run:
        _require_mac()
    return _go(status_steps(arguments.label, _place(_kind(arguments))), dry_run=arguments.dry_run)


def _go(steps: tuple[Step, ...], *, dry_run: bool) -> int:
    if dry_run:
        for step in steps:
            print(describe(step))
    else:
        take(steps)
    return DONE


def _require_mac() -> None:
    if sys.platform != "darwin":
        raise StartError(
            "launchd is macOS's; here --dry-run shows what would be done there, and Linux hosts have"
            " systemd (docs/deploy/systemd.md)"
        )


def _require_rights(kind: Kind) -> None:
    is_root = os.geteuid() == 0
    if kind is Kind.DAEMON and not is_root:
        raise StartError("a daemon is root's to install and remove: use sudo, or --agent for this user alone")
    if kind is Kind.AGENT and is_root:
        raise StartError("an agent is installed and removed by its own user, without sudo")


def _kind(arguments: argparse.Namespace) -> Kind:
    return Kind.AGENT if arguments.agent else Kind.DAEMON


def _place(kind: Kind) -> Place:
    return place_of(kind, home=Path.home(), uid=os.getuid())


def _job(arguments: argparse.Namespace) -> Job:
    kind = _kind(arguments)
    library = Path("/Library") if kind is Kind.DAEMON else Path.home() / "Library"
    working_folder: Path = arguments.working_folder or library / "Application Support/Samovar"
    log_folder: Path = arguments.log_folder or library / "Logs/Samovar"
    # What the job will find, not what this shell has: no variable, and not this folder's samovar.toml.
    settings = load_for_service(arguments, folder=working_folder, system_file=system_file("darwin")).settings
    environment = {"PATH": _PATH, "HF_HOME": str(working_folder / "huggingface")}
    if not settings.server.state_folder:
        environment[f"{ENVIRONMENT_PREFIX}SERVER__STATE_FOLDER"] = str(working_folder)
    if not settings.telemetry.log_file:
        environment[f"{ENVIRONMENT_PREFIX}TELEMETRY__LOG_FILE"] = str(log_folder / "samovar.log")
    account = _ACCOUNT if kind is Kind.DAEMON else ""
    return Job(
        kind=kind,
        label=arguments.label,
        # Not resolved: a link that an upgrade turns elsewhere is to stay one.
        program=arguments.program or Path(sys.executable).with_name("samovar"),
        arguments=("serve", *settings_again(arguments)),
        log_folder=log_folder,
        working_folder=working_folder,
        drain_seconds=settings.server.drain_seconds,
        throttle_seconds=arguments.throttle_seconds,
        open_files=arguments.open_files,
        user=arguments.user or account,
        group=arguments.group or account,
        environment=environment,
    )
