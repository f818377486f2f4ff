"""`samovar bench`: how fast a server is that speaks OpenAI's protocol, seen from outside."""

import argparse
import itertools
import json
import sys
import uuid
from dataclasses import asdict, replace
from pathlib import Path

import shtab
from rich.console import Console

from app.bench.machine import describe_machine
from app.bench.measure import QUICK, Plan, run, singles, summary
from app.bench.models import LIST_SECONDS, address, find_model
from app.bench.replies import SILENT_SECONDS
from app.bench.table import view
from app.clock import monotonic
from app.commands.arguments import DONE, Commands, add_verb
from app.commands.http_client import reaching
from app.errors import SamovarError
from app.settings.layers import client_key

_HELP = """\
Any server will do, one of Samovar or another's. Measured are the time to the first token and the prompt
tokens computed, turn by turn of a conversation that grows; tokens a second and the time to the first token
with so many clients at a time; and how long replies stand still while a long prompt is read. Every prompt
begins as no other does, but for the turns of a conversation. Nothing else should use the server meanwhile.

  samovar bench http://127.0.0.1:8080
  samovar bench http://127.0.0.1:8080 --clients 1,16 --json result.json

A server with API keys is asked with that of --key, or of SAMOVAR_AUTH__KEY, which other users of this
machine cannot read off the list of processes."""

_FULL = Plan()


def register(commands: Commands) -> None:
    """Add the verb."""
    verb = add_verb(commands, "bench", _bench, "measure a server, this one or another's, from outside")
    verb.epilog = _HELP
    verb.add_argument("url", metavar="URL", help="the server, as http://host:port")
    verb.add_argument("--model", default="", metavar="NAME", help="which model. Default: the only one.")
    verb.add_argument("--key", default="", metavar="KEY", help="API key. Default: that of SAMOVAR_AUTH__KEY.")
    verb.add_argument(
        "--clients",
        type=_counts,
        metavar="N,…",
        help=f"numbers of clients at a time. Default: {','.join(map(str, _FULL.clients))}.",
    )
    verb.add_argument(
        "--turns", type=_count, metavar="N", help=f"turns of a conversation. Default: {_FULL.turns}."
    )
    verb.add_argument(
        "--words",
        type=_count,
        metavar="N",
        help=f"words of each message; the long prompt has {_FULL.long_words // _FULL.words} times as many. "
        f"Default: {_FULL.words}.",
    )
    verb.add_argument("--quick", action="store_true", help="measure less, once: to see that all is well")
    written = verb.add_argument("--json", type=Path, metavar="FILE", help="write everything to a file, too")
    written.complete = shtab.FILE  # type: ignore[attr-defined]


def _bench(arguments: argparse.Namespace) -> int:
    url = address(arguments.url)
    plan = _plan(arguments)
    # Said now rather than after minutes.
    if arguments.json is not None and not arguments.json.absolute().parent.is_dir():
        raise SamovarError(f"{arguments.json} cannot be written: there is no such folder")
    doing = Console(stderr=True, highlight=False)
    # Of no other run: a server may still have that one's prompts in its cache.
    tags = (f"{uuid.uuid4().hex[:8]}-{number}" for number in itertools.count(1))
    with reaching(url, timeout_seconds=LIST_SECONDS):
        server = find_model(url, arguments.model, key=arguments.key or client_key())
    with reaching(url, timeout_seconds=SILENT_SECONDS):
        found = run(
            server,
            plan,
            tags,
            clock=monotonic,
            say=lambda what: doing.print(f"{what} …", style="dim", markup=False),
        )
    results = summary(found)
    screen = Console(highlight=False)
    screen.print(f"{server.model} at {url}\n", markup=False)
    screen.print(view(results))
    if arguments.json is not None:
        told = {
            "machine": describe_machine(),
            "server": {"url": url, "model": server.model},
            "plan": asdict(plan),
            "results": results,
            "measured": singles(found),
        }
        _write(arguments.json, json.dumps(told, indent=1))
    return DONE


def _plan(arguments: argparse.Namespace) -> Plan:
    plan = QUICK if arguments.quick else _FULL
    words = arguments.words or plan.words
    return replace(
        plan,
        clients=arguments.clients or plan.clients,
        turns=arguments.turns or plan.turns,
        words=words,
        long_words=plan.long_words * words // plan.words,
    )


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text + "\n")
    except OSError as error:
        raise SamovarError(f"{file} cannot be written: {error.strerror}") from error
    print(f"written to {file}", file=sys.stderr)


def _count(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if not number:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")
    return number


def _counts(text: str) -> tuple[int, ...]:
    return tuple(_count(part) for part in text.split(","))
