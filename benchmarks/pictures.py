"""Draws the committed results: `python -m benchmarks.pictures [--folder FOLDER]`.

Each picture comes twice, for light and for dark pages. The same results make the same bytes.
"""

import argparse
import json
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from benchmarks.servers import LLAMA_CPP, MLX_LM, SAMOVAR

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "pictures" / "benchmarks"
RESULTS = ROOT / "benchmarks" / "results"

Result = Mapping[str, Any]


@dataclass(frozen=True)
class Theme:
    """Colours for one kind of page. Lines differ by mark as well, for who does not see the colours."""

    name: str
    paper: str
    ink: str
    faint: str
    colours: Mapping[str, str]


THEMES = (
    Theme(
        "light",
        "#ffffff",
        "#1f2328",
        "#d1d9e0",
        {SAMOVAR: "#b3341f", MLX_LM: "#1f5fb3", LLAMA_CPP: "#5b6b1a"},
    ),
    Theme(
        "dark", "#0d1117", "#e6edf3", "#3d444d", {SAMOVAR: "#ff8a70", MLX_LM: "#79b8ff", LLAMA_CPP: "#c5d86d"}
    ),
)
MARKS: Mapping[str, str] = {SAMOVAR: "o", MLX_LM: "s", LLAMA_CPP: "^"}
STYLE: Mapping[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "samovar",
}
DOTS_PER_INCH = 150


def turns(figure: Figure, theme: Theme, result: Result) -> None:
    """What each turn computes of its prompt; where several talk at once, their mean."""
    families = result["results"]
    kinds = list(next(iter(families.values())))
    grid = figure.subplots(len(families), len(kinds), sharex=True, sharey=True, squeeze=False)
    for row, (family, shapes) in zip(grid, families.items(), strict=True):
        for axes, kind in zip(row, kinds, strict=True):
            for server, talks in shapes[kind].items():
                computed = [
                    statistics.mean(turn["computed_tokens"] for turn in same)
                    for same in zip(*talks, strict=True)
                ]
                line(axes, theme, server, range(1, len(computed) + 1), computed)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        row[0].set_ylabel(f"{family}\nprompt tokens computed")
        row[0].set_ylim(bottom=0)
    for axes, kind in zip(grid[0], kinds, strict=True):
        axes.set_title(kind)
    for axes in grid[-1]:
        axes.set_xlabel("turn")
    grid.flat[0].legend(frameon=False)


def serving(figure: Figure, theme: Theme, result: Result) -> None:
    """Tokens a second by number of clients, each pair of rounds a dot."""
    clients_and_ratios(figure, theme, result["results"], MLX_LM)


def peer_speed(figure: Figure, theme: Theme, result: Result) -> None:
    """The same beside llama.cpp."""
    clients_and_ratios(figure, theme, result["clients"], LLAMA_CPP)


def clients_and_ratios(figure: Figure, theme: Theme, rows: Sequence[Result], peer: str) -> None:
    """Two ratios ours ÷ theirs by number of clients: median, and from the smallest to the largest."""
    places = range(len(rows))
    for axes, (key, title) in zip(
        figure.subplots(1, 2),
        (
            ("throughput_ratio", "tokens a second; more is better"),
            ("first_token_ratio", "time to first token; less is better"),
        ),
        strict=True,
    ):
        spreads = [row[key] for row in rows]
        medians = [each["median"] for each in spreads]
        reach = [
            [each["median"] - each["min"] for each in spreads],
            [each["max"] - each["median"] for each in spreads],
        ]
        colour = theme.colours[SAMOVAR]
        axes.errorbar(places, medians, reach, fmt=MARKS[SAMOVAR], color=colour, capsize=4)
        axes.axhline(1, color=theme.colours[peer], linewidth=1, linestyle="--")
        axes.set_xticks(places, [str(row["clients"]) for row in rows])
        axes.set_xlim(-0.5, len(rows) - 0.5)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("clients at a time")
        axes.set_ylabel(f"{SAMOVAR} ÷ {peer}")
        axes.set_title(title)


def budget(figure: Figure, theme: Theme, result: Result) -> None:
    """What is computed, and how many turns hit, by how many snapshots there is room for."""
    rows = result["results"]
    room = [row["budget"] / result["options"]["conversations"] for row in rows]
    reuse(figure, theme, room, rows, "snapshots of room, a conversation")


def peer_budget(figure: Figure, theme: Theme, result: Result) -> None:
    """The same beside llama.cpp, by how many whole conversations there is room for."""
    rows = result["budgets"]
    room = [row["conversations"] / result["options"]["conversations"] for row in rows]
    reuse(figure, theme, room, rows, "conversations there is room for, as a share")


def reuse(figure: Figure, theme: Theme, room: Sequence[float], rows: Sequence[Result], label: str) -> None:
    """Two shares by room: prompt tokens computed, and later turns that hit."""
    computed, hit = figure.subplots(1, 2, sharex=True)
    for server in rows[0]["servers"]:
        found = [row["servers"][server] for row in rows]
        line(
            computed, theme, server, room, [each["computed_tokens"] / each["prompt_tokens"] for each in found]
        )
        line(hit, theme, server, room, [each["hits"] / each["later_turns"] for each in found])
    computed.set_title("prompt tokens computed; less is better")
    hit.set_title("later turns that hit; more is better")
    for axes in (computed, hit):
        axes.set_ylim(0, 1.05)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:.0%}"))
        axes.set_xlabel(label)
        axes.set_xticks(room, [f"{each:g}" for each in room])
    computed.legend(frameon=False)


def peer_turns(figure: Figure, theme: Theme, result: Result) -> None:
    """Time to first token by turn of a chat."""
    axes = figure.subplots()
    said = result["chat"]["turns"]
    for server in said[0]["servers"]:
        medians = [
            statistics.median([each["first_token_seconds"] for each in turn["servers"][server]])
            for turn in said
        ]
        line(axes, theme, server, [turn["turn"] for turn in said], [1000 * each for each in medians])
    axes.set_xlabel("turn")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel("time to first token, ms")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)


def device_turns(figure: Figure, theme: Theme, result: Result) -> None:
    """Time to first token by length of history, cold and warm, a model in each part."""
    parts = figure.subplots(1, len(result["shapes"]), sharex=True, sharey=True)
    for axes, measured in zip(parts, result["shapes"], strict=True):
        for server in (SAMOVAR, MLX_LM):
            rows = [row for row in measured["turns"] if server in row]
            lengths = [row["length"] for row in rows]
            for what in ("first_seconds", "warm_seconds"):
                seconds = [statistics.median([turn[what] for turn in row[server]]) for row in rows]
                (drawn,) = line(axes, theme, server, lengths, seconds)
                cold = what == "first_seconds"
                drawn.set_linestyle("-" if cold else "--")
                drawn.set_label(f"{server}, {'cold' if cold else 'next turn'}")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_title(measured["shape"])
        axes.set_xlabel("tokens of history")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda tokens, _: f"{tokens / 1024:g}k"))
    parts[0].set_ylabel("seconds to first token")
    # No part has room for all four of them.
    figure.legend(
        *parts[0].get_legend_handles_labels(), frameon=False, fontsize=7, ncols=4, loc="outside lower center"
    )


def line(axes: Axes, theme: Theme, server: str, across: Sequence[float], up: Sequence[float]) -> list[Line2D]:
    """A server's line, in its colour and with its mark."""
    return axes.plot(
        across,
        up,
        color=theme.colours[server],
        marker=MARKS[server],
        markersize=4,
        linewidth=1.5,
        label=server,
    )


Draw = Callable[[Figure, Theme, Result], None]
PICTURES: Mapping[str, tuple[str, tuple[float, float], Draw]] = {
    "serving": ("serving", (7.5, 3.0), serving),
    "turns": ("turns", (9.0, 5.0), turns),
    "budget": ("budget", (7.5, 3.0), budget),
    "peer-speed": ("peer", (7.5, 3.0), peer_speed),
    "peer-turns": ("peer", (5.0, 3.0), peer_turns),
    "peer-budget": ("peer", (7.5, 3.0), peer_budget),
    "device-turns": ("device_*", (7.5, 3.0), device_turns),
}
"""Name → the result that it shows, or files of shapes, its size in inches, and how it is drawn."""


def files() -> Iterator[tuple[str, Theme]]:
    """The name of each file, without its ending, and its theme."""
    for name in PICTURES:
        for theme in THEMES:
            yield f"{name}-{theme.name}", theme


def draw(folder: Path) -> None:
    """Write all pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    for file, theme in files():
        source, size, paint = PICTURES[file.removesuffix(f"-{theme.name}")]
        read = [json.loads(found.read_text()) for found in sorted(RESULTS.glob(f"{source}.json"))]
        result = {"shapes": [each["result"] for each in read]} if "*" in source else read[0]
        coloured = {
            **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), theme.ink),
            **dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), theme.paper),
            "axes.edgecolor": theme.faint,
        }
        settings: dict[Any, Any] = {**mpl.rcParamsDefault, **STYLE, **coloured, "backend": "agg"}
        with mpl.rc_context(settings):
            figure = Figure(figsize=size, dpi=DOTS_PER_INCH, layout="constrained")
            paint(figure, theme, result)
            # The version of what draws is no part of what is drawn.
            figure.savefig(folder / f"{file}.png", metadata={"Software": None})


def main() -> None:
    """Draw, for the documentation or into another folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    draw(parser.parse_args().folder)


if __name__ == "__main__":
    main()
