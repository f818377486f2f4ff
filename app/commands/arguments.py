"""Flags made from the settings, and the settings they load. Knows the parser and no verb.

Exit codes: 0 done, 1 the settings or the start are at fault, 2 the command line makes no sense, 130 SIGINT.
"""

import argparse
import difflib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import shtab

from app.settings.keys import all_keys, sections
from app.settings.layers import built_in, load_here
from app.settings.layers import load as load_layers
from app.settings.resolution import LIKENESS, Loaded
from app.settings.sources import Given, Layer

DONE, FAILED, MISUSED, INTERRUPTED = 0, 1, 2, 130

Commands = Any
"""What `add_subparsers` returns; argparse has no public name for it."""
Run = Callable[[argparse.Namespace], int]

_PATHS = frozenset(
    {
        *("model.path", "model.adapter_path", "model.chat_template"),
        *("server.state_folder", "telemetry.log_file"),
        *("auth.keys_file", "server.tls_certificate", "server.tls_key"),
    }
)

_SAME_EVERYWHERE = """\
Every flag is also a setting of the environment and of a file. --snapshot-ttl 1h is
SAMOVAR_SNAPSHOTS__TTL=1h, and in samovar.toml

  [snapshots]
  ttl = "1h"

The command line comes first, then the environment, then the file of --config, ./samovar.toml, the
system's file, and the built-in defaults."""


def verbs(parser: argparse.ArgumentParser) -> Commands:
    """The place for a command's verbs; without one of them, its help is printed and the exit code is 2."""

    def explain(_arguments: argparse.Namespace) -> int:
        parser.print_help(sys.stderr)
        return MISUSED

    parser.set_defaults(run=explain)
    return parser.add_subparsers(title="commands", metavar="COMMAND", prog=parser.prog)


def add_group(commands: Commands, name: str, purpose: str) -> Commands:
    """A command that only has verbs, as `samovar config` has `show` and `check`."""
    return verbs(commands.add_parser(name, help=purpose, description=_sentence(purpose)))


def add_verb(commands: Commands, name: str, run: Run, purpose: str) -> argparse.ArgumentParser:
    """A command that takes the flags its module adds, and no settings."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=purpose,
        description=_sentence(purpose),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run)
    return parser


def add_settings_verb(commands: Commands, name: str, run: Run, purpose: str) -> argparse.ArgumentParser:
    """A command that takes every setting as a flag."""
    parser = add_verb(commands, name, run, purpose)
    parser.usage = "%(prog)s [--config FILE] [FLAGS]"
    parser.epilog = _SAME_EVERYWHERE
    _completes_files(
        parser.add_argument(
            "--config", dest="file", type=Path, metavar="FILE", help="settings file to read (TOML)"
        )
    )
    defaults = built_in()
    options: dict[str, Any]
    for section in sections():
        group = parser.add_argument_group(section.name or "settings", section.description)
        for key in section.keys:
            default = key.value_in(defaults)
            described = f"{key.description} Default: {'empty' if default == '' else key.show(default)}."
            if not key.flag:
                continue
            options = {"dest": key.dotted, "default": argparse.SUPPRESS, "help": described}
            if key.is_switch:
                group.add_argument(key.flag, action=argparse.BooleanOptionalAction, **options)
            else:
                action = group.add_argument(key.flag, metavar=key.form, **options)
                if key.dotted in _PATHS:
                    _completes_files(action)
    return parser


def load(arguments: argparse.Namespace) -> Loaded:
    """The settings of all layers, the command line's first; warnings go to stderr, faults are raised."""
    loaded = load_here(_flags(arguments), config=arguments.file)
    for warning in loaded.warnings:
        print(f"samovar: warning: {warning}", file=sys.stderr)
    return loaded


def load_for_service(arguments: argparse.Namespace, *, folder: Path, system_file: Path) -> Loaded:
    """The settings as a service in `folder` will find them that is started with the same flags."""
    return load_layers(
        _flags(arguments), config=arguments.file, environ={}, folder=folder, system_file=system_file
    )


def settings_again(arguments: argparse.Namespace) -> tuple[str, ...]:
    """The flags that were given, as another process in another folder can be given them."""
    again = [] if arguments.file is None else [f"--config={arguments.file.absolute()}"]
    for dotted, given in _flags(arguments).items():
        if isinstance(given.value, bool):
            again.append(given.spelling)
            continue
        value = str(given.value)
        # A hub id looks like a path, so only what is there counts as one.
        if dotted in _PATHS and value and Path(value).expanduser().exists():
            value = str(Path(value).expanduser().absolute())
        again.append(f"{given.spelling}={value}")
    return tuple(again)


def why_unknown(argument: str) -> str:
    """What to tell somebody who wrote a flag that does not exist."""
    known = [
        flag
        for key in all_keys()
        for flag in ([key.flag, key.off_flag] if key.is_switch else [key.flag])
        if flag
    ]
    guesses = difflib.get_close_matches(
        argument.partition("=")[0], [*known, "--config"], n=1, cutoff=LIKENESS
    )
    return f"there is no {argument}" + (f"; did you mean {guesses[0]}?" if guesses else " here")


def _flags(arguments: argparse.Namespace) -> Layer:
    """The layer of the command line: only flags that were given are in `arguments`."""
    layer = {}
    for key in all_keys():
        if key.dotted in arguments:
            value = getattr(arguments, key.dotted)
            flag = key.off_flag if value is False else key.flag
            layer[key.dotted] = Given(value, spelling=flag, layer=f"flag {flag}")
    return layer


def _completes_files(action: argparse.Action) -> None:
    """Let a shell complete the flag's value as the name of a file or folder."""
    action.complete = shtab.FILE  # type: ignore[attr-defined]


def _sentence(purpose: str) -> str:
    return f"{purpose[0].upper()}{purpose[1:]}."
