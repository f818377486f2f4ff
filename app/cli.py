"""The `samovar` command: puts its verbs together, turns errors into exit codes. Knows no model, no HTTP."""

import argparse
import importlib
import sys
from collections.abc import Sequence

from app import __version__
from app.commands import completion
from app.commands.arguments import FAILED, INTERRUPTED, Run, verbs, why_unknown
from app.errors import SamovarError

_ABOUT = """\
Serves a language model over HTTP, with the OpenAI protocol, and keeps every conversation's state warm
between its turns."""

_EXAMPLES = """\
examples:
  samovar serve                                      the built-in demo model, to try things out
  samovar serve --model mlx-community/Qwen3-8B-4bit  a model of the hub
  samovar serve --model ~/models/mine --port 9000 --snapshot-capacity-bytes 8GiB
  samovar chat                                       talk with the server that runs on this machine
  samovar config show                                every setting, and where its value comes from"""


_VERBS = ("serve", "chat", "config", "keys", "cache", "bench", "launchd", "starts")
"""The modules of `app.commands` that have a verb of the same name, in the order that help lists them."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; a command line that makes no sense ends in SystemExit(2)."""
    try:
        words = sys.argv[1:] if argv is None else argv
        # A server need not wait for what only other verbs import.
        parser = _parser([verb for verb in _VERBS if verb in words[:1]] or _VERBS)
        arguments, unknown = parser.parse_known_args(words)
        if unknown:
            parser.error(why_unknown(unknown[0]))
        run: Run = arguments.run
        return run(arguments)
    except SamovarError as error:
        for line in str(error).splitlines():
            print(f"samovar: {line}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED


def _parser(names: Sequence[str] = _VERBS) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="samovar",
        description=_ABOUT,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"samovar {__version__}")
    commands = verbs(parser)
    for name in names:
        importlib.import_module(f"app.commands.{name}").register(commands)
    completion.register(commands, parser)
    return parser
