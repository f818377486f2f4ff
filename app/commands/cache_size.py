"""`samovar cache size`: what a model's conversations weigh, before anything is loaded."""

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs
from rich.console import Console
from rich.table import Table

from app.commands.arguments import DONE, load
from app.commands.cache_view import readable_bytes
from app.errors import StartError
from app.memory_settings import asked_limits
from app.model_settings import model_source, require_backend
from app.progress import ProgressBar
from app.snapshots.sizing import (
    START_SESSIONS,
    START_TOKENS,
    Recommendation,
    for_conversations,
    snapshots_between_turns,
)

if TYPE_CHECKING:
    from app.engine.blueprint import Blueprint

_LENGTHS = tuple(2**power for power in range(10, 21, 2))


@dataclass(frozen=True, slots=True)
class _Asked:
    """For how many conversations, how long, and how many snapshots each holds."""

    conversations: int
    tokens: int
    snapshots_each: int


def add_size_flags(verb: argparse.ArgumentParser) -> None:
    """What the verb takes besides the settings."""
    verb.add_argument(
        "--conversations",
        type=_count,
        default=START_SESSIONS,
        metavar="N",
        help=f"conversations to keep at the same time. Default: {START_SESSIONS}.",
    )
    verb.add_argument(
        "--context",
        type=_count,
        metavar="TOKENS",
        help=f"tokens of each. Default: {START_TOKENS}, or the model's context if that is shorter.",
    )
    verb.add_argument("--json", action="store_true", help="print it as JSON, in bytes")


def size(arguments: argparse.Namespace) -> int:
    """Run the verb."""
    settings = load(arguments).settings
    require_backend()
    limits = asked_limits(settings)
    from app.engine.blueprint import read_blueprint  # noqa: PLC0415

    with ProgressBar(sys.stderr) as progress:
        model = read_blueprint(
            model_source(settings),
            cache_folder=Path(platformdirs.user_cache_dir("samovar")),
            progress=progress,
        )
    tokens = arguments.context or min(START_TOKENS, model.context_length)
    if tokens > model.context_length:
        raise StartError(
            f"--context {tokens} is more than the model's context of {model.context_length} tokens"
        )
    asked = _Asked(
        arguments.conversations,
        tokens,
        snapshots_between_turns(warmup=settings.snapshots.warmup, truncatable=model.truncatable),
    )
    right = for_conversations(
        model.size,
        sessions=asked.conversations,
        tokens=tokens,
        snapshots_each=asked.snapshots_each,
        available_bytes=limits.available_bytes(model.weights_bytes or 0),
    )
    if arguments.json:
        print(json.dumps(_as_json(model, asked, right), indent=2))
    else:
        _print(model, asked, right, limits.limit_bytes)
    return DONE


def _lengths(model: "Blueprint", asked: _Asked) -> list[int]:
    usual = [length for length in _LENGTHS if length < model.context_length]
    return sorted({*usual, asked.tokens, model.context_length})


def _as_json(model: "Blueprint", asked: _Asked, right: Recommendation) -> Mapping[str, Any]:
    return {
        "model": model.name,
        "family": model.family,
        "cache_kinds": list(model.cache_kinds),
        "context_length": model.context_length,
        "weights_bytes": model.weights_bytes,
        "fixed_bytes": model.size.fixed_bytes,
        "bytes_per_token": model.size.bytes_per_token,
        "snapshots": [
            {"tokens": length, "bytes": model.size.nbytes(length)} for length in _lengths(model, asked)
        ],
        "conversations": asked.conversations,
        "context": asked.tokens,
        "snapshots_per_conversation": asked.snapshots_each,
        "wanted_bytes": right.wanted_bytes,
        "available_bytes": right.available_bytes,
        "recommended_bytes": right.capacity_bytes,
        "fits": right.fits,
    }


def _print(model: "Blueprint", asked: _Asked, right: Recommendation, memory_bytes: int) -> None:
    console = Console()
    say = partial(console.print, highlight=False, soft_wrap=True)
    weights = "unknown" if model.weights_bytes is None else readable_bytes(model.weights_bytes)
    say(f"{model.name} ({model.family}; {', '.join(model.cache_kinds)})")
    say(
        f"weights {weights}; a snapshot is {readable_bytes(model.size.fixed_bytes)} and "
        f"{readable_bytes(model.size.bytes_per_token)} a token"
    )
    table = Table(box=None, padding=(0, 2))
    for heading in ("tokens", "one snapshot", "snapshots that fit"):
        table.add_column(heading, justify="right")
    for length in _lengths(model, asked):
        each = model.size.nbytes(length)
        table.add_row(f"{length:,}", readable_bytes(each), f"{right.available_bytes // each:,}")
    console.print(table)
    say(
        f"{asked.conversations} conversations of {asked.tokens:,} tokens, with "
        f"{asked.snapshots_each} snapshot{'s' if asked.snapshots_each > 1 else ''} each and room to grow: "
        f"{readable_bytes(right.wanted_bytes)}"
    )
    room = f"of {readable_bytes(memory_bytes)}, {readable_bytes(right.available_bytes)} are for snapshots"
    if model.weights_bytes is None:
        room += ", less half of the weights"
    say(f"It {'fits' if right.fits else 'does not fit'}: {room}.", style="" if right.fits else "yellow")
    say(f"  --snapshot-capacity-bytes {right.capacity_bytes}")


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError(f"{count} is not at least 1")
    return count
