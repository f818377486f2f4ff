"""A summary as a person reads it in a terminal. Knows the summary's keys, and no server."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

Spread = Mapping[str, float]


def view(summary: Mapping[str, Any]) -> RenderableType:
    """Medians, with the smallest and the largest in brackets."""
    return Group(_turns(summary["turns"]), "", _speed(summary["speed"]), "", _gaps(summary["gaps"]))


def _turns(turns: Sequence[Mapping[str, Any]]) -> Table:
    table = _table("a conversation", "turn", "prompt tokens", "computed", "first token, ms")
    for turn in turns:
        computed = turn["computed_tokens"]
        table.add_row(
            str(turn["turn"]),
            f"{turn['prompt_tokens']['median']:.0f}",
            "not told" if computed is None else f"{computed['median']:.0f}",
            _milliseconds(turn["first_token_seconds"]),
        )
    return table


def _speed(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = _table("clients at a time", "clients", "tokens a second", "first token, ms")
    for row in rows:
        table.add_row(
            str(row["clients"]), _written(row["tokens_per_second"]), _milliseconds(row["first_token_seconds"])
        )
    return table


def _gaps(gaps: Mapping[str, Any]) -> Table:
    table = _table("between pieces of replies", "", "p50, ms", "p99, ms", "longest, ms")
    for name, label in (("alone", "alone"), ("beside", "while a long prompt is read")):
        row = gaps[name]
        table.add_row(
            label, *(_milliseconds(row[key]) for key in ("p50_seconds", "p99_seconds", "max_seconds"))
        )
    table.add_row("until the long prompt's first token", "", "", _milliseconds(gaps["prefill_seconds"]))
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2))
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left")
    return table


def _milliseconds(seconds: Spread) -> str:
    return _written({key: value * 1000 for key, value in seconds.items()})


def _written(values: Spread) -> str:
    digits = 0 if values["median"] >= 10 else 1  # noqa: PLR2004 - two digits say enough
    median, least, most = (f"{values[key]:.{digits}f}" for key in ("median", "min", "max"))
    return median if least == most else f"{median} ({least} to {most})"
