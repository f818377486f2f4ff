"""The `samovar` command: flags made from the settings, a few verbs, exit codes. Knows no model and no HTTP.

Exit codes: 0 done, 1 the settings or the start are at fault, 2 the command line makes no sense, 130 SIGINT.
"""

import argparse
import difflib
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from app import __version__
from app.errors import SamovarError
from app.settings.keys import all_keys, sections
from app.settings.layers import built_in, load_here
from app.settings.resolution import LIKENESS, Loaded
from app.settings.sources import Given, Layer

DONE, FAILED, MISUSED, INTERRUPTED = 0, 1, 2, 130

_ABOUT = """\
Serves a language model over HTTP, with the OpenAI protocol, and keeps every conversation's state warm
between its turns."""

_EXAMPLES = """\
examples:
  samovar serve                                      the built-in demo model, to try things out
  samovar serve --model mlx-community/Qwen3-8B-4bit  a model of the hub
  samovar serve --model ~/models/mine --port 9000 --snapshot-capacity-bytes 8GiB
  samovar config show                                every setting, and where its value comes from"""

_SAME_EVERYWHERE = """\
Every flag is also a setting of the environment and of a file. --snapshot-ttl 1h is
SAMOVAR_SNAPSHOTS__TTL=1h, and in samovar.toml

  [snapshots]
  ttl = "1h"

The command line comes first, then the environment, then the file of --config, ./samovar.toml, the
system's file, and the built-in defaults."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; a command line that makes no sense ends in SystemExit(2)."""
    try:
        parser = _parser()
        arguments, unknown = parser.parse_known_args(argv)
        if unknown:
            parser.error(_why_unknown(unknown[0]))
        run: Callable[[argparse.Namespace], int] = arguments.run
        return run(arguments)
    except SamovarError as error:
        for line in str(error).splitlines():
            print(f"samovar: {line}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED


def _serve(arguments: argparse.Namespace) -> int:
    loaded = _load(arguments)
    from app.server import serve  # noqa: PLC0415 - brings in MLX and Litestar, which --help can do without

    return serve(loaded.settings, loaded.provenance)


def _show(arguments: argparse.Namespace) -> int:
    loaded = _load(arguments)
    if arguments.json:
        values = {key.dotted: key.value_in(loaded.settings) for key in all_keys()}
        layers = loaded.provenance
        print(json.dumps({name: {"value": values[name], "layer": layers[name]} for name in values}, indent=2))
        return DONE
    heading = ("setting", "value", "layer")
    rows = [
        (key.dotted, key.show(key.value_in(loaded.settings)), loaded.provenance[key.dotted])
        for key in all_keys()
    ]
    widths = [max(map(len, column)) for column in zip(heading, *rows, strict=True)]
    for row in (heading, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())
    return DONE


def _check(arguments: argparse.Namespace) -> int:
    _load(arguments)
    print("ok")
    return DONE


def _load(arguments: argparse.Namespace) -> Loaded:
    loaded = load_here(_flags(arguments), config=arguments.file)
    for warning in loaded.warnings:
        print(f"samovar: warning: {warning}", file=sys.stderr)
    return loaded


def _flags(arguments: argparse.Namespace) -> Layer:
    """The layer of the command line: only flags that were given are in `arguments`."""
    layer = {}
    for key in all_keys():
        if key.dotted in arguments:
            value = getattr(arguments, key.dotted)
            flag = key.off_flag if value is False else key.flag
            layer[key.dotted] = Given(value, spelling=flag, layer=f"flag {flag}")
    return layer


def _why_unknown(argument: str) -> str:
    known = [
        flag for key in all_keys() for flag in ([key.flag, key.off_flag] if key.is_switch else [key.flag])
    ]
    guesses = difflib.get_close_matches(
        argument.partition("=")[0], [*known, "--config"], n=1, cutoff=LIKENESS
    )
    return f"there is no {argument}" + (f"; did you mean {guesses[0]}?" if guesses else " here")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="samovar",
        description=_ABOUT,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"samovar {__version__}")
    commands = _commands(parser)
    _add_command(commands, "serve", _serve, "serve a model until the process is told to stop")
    config = commands.add_parser("config", help="look at the settings", description="Look at the settings.")
    looks = _commands(config)
    show = _add_command(looks, "show", _show, "print every setting, its value and the layer it comes from")
    show.add_argument("--json", action="store_true", help="print it as JSON, in bytes and seconds")
    _add_command(looks, "check", _check, 'print "ok", or what is wrong with the settings, one line a fault')
    return parser


def _commands(parser: argparse.ArgumentParser) -> "argparse._SubParsersAction[argparse.ArgumentParser]":
    def explain(_arguments: argparse.Namespace) -> int:
        parser.print_help(sys.stderr)
        return MISUSED

    parser.set_defaults(run=explain)
    return parser.add_subparsers(title="commands", metavar="COMMAND", prog=parser.prog)


def _add_command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    run: Callable[[argparse.Namespace], int],
    purpose: str,
) -> argparse.ArgumentParser:
    """A command that takes every setting as a flag."""
    parser = commands.add_parser(
        name,
        help=purpose,
        description=f"{purpose[0].upper()}{purpose[1:]}.",
        epilog=_SAME_EVERYWHERE,
        usage="%(prog)s [--config FILE] [FLAGS]",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run)
    parser.add_argument(
        "--config", dest="file", type=Path, metavar="FILE", help="settings file to read (TOML)"
    )
    defaults = built_in()
    options: dict[str, Any]
    for section in sections():
        group = parser.add_argument_group(section.name or "settings", section.description)
        for key in section.keys:
            default = key.value_in(defaults)
            described = f"{key.description} Default: {'empty' if default == '' else key.show(default)}."
            options = {"dest": key.dotted, "default": argparse.SUPPRESS, "help": described}
            if key.is_switch:
                group.add_argument(key.flag, action=argparse.BooleanOptionalAction, **options)
            else:
                group.add_argument(key.flag, metavar=key.form, **options)
    return parser
