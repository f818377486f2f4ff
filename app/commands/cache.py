"""`samovar cache`: how large the snapshot store should be, what it does, and how to empty it."""

import argparse
import json
import time
from typing import Any

from rich.console import Console
from rich.live import Live

from app.commands.arguments import DONE, Commands, add_group, add_settings_verb, add_verb
from app.commands.cache_size import add_size_flags, size
from app.commands.cache_view import view
from app.commands.http_client import add_url, ask

_REFRESH_SECONDS = 2.0


def register(commands: Commands) -> None:
    """Add the verbs."""
    group = add_group(commands, "cache", "size, watch or empty the snapshot store")
    add_size_flags(
        add_settings_verb(
            group, "size", size, "print what conversations with a model weigh, without loading its weights"
        )
    )
    stats = add_verb(group, "stats", _stats, "print what a running server's snapshot store holds and did")
    stats.add_argument("--watch", action="store_true", help="go on printing until interrupted")
    stats.add_argument(
        "--json", action="store_true", help="print it as JSON, in bytes and seconds; with --watch one a line"
    )
    reset = add_verb(group, "reset", _reset, "empty a running server's snapshot store")
    for verb in (stats, reset):
        add_url(verb)


def _stats(arguments: argparse.Namespace) -> int:
    console = Console()
    if arguments.watch and not arguments.json and console.is_terminal:
        with Live(view(_ask_stats(arguments)), console=console, auto_refresh=False) as live:
            while True:
                time.sleep(_REFRESH_SECONDS)
                live.update(view(_ask_stats(arguments)), refresh=True)
    while True:
        stats = _ask_stats(arguments)
        if arguments.json:
            print(json.dumps(stats), flush=True)
        else:
            console.print(view(stats))
        if not arguments.watch:
            return DONE
        time.sleep(_REFRESH_SECONDS)


def _ask_stats(arguments: argparse.Namespace) -> dict[str, Any]:
    return ask(arguments.url, "GET", "/v1/cache/stats", expecting="snapshot_ghost_hits_by_capacity")


def _reset(arguments: argparse.Namespace) -> int:
    freed = ask(arguments.url, "POST", "/v1/cache/reset", expecting="freed_entries")
    print(f"removed {freed['freed_entries']} snapshots, {freed['freed_bytes']} bytes")
    return DONE
