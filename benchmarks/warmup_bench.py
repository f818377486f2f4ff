"""Tokens left to compute each turn, with the boundary alone and with warm-up, on a tiny hybrid model.

`python -m benchmarks.warmup_bench` measures, keeps the result in `benchmarks/results/` and writes
docs/warmup.md from it; with `--report` it only writes the page. Counts, not times: they are the same on
every machine.
"""

import argparse
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from app.events import Warmup
from tests.support.process import samovar
from tests.support.templates import REPLYING
from tests.support.tiny import make_tiny_model
from tests.support.warm_talk import TOOL, TOOL_TURNS, USER_TURNS, warm_talk

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "warmup.md"
RESULT = ROOT / "benchmarks" / "results" / "warmup.json"

FAMILY = "lfm2"
TALKS: Mapping[str, tuple[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]]] = {
    "chatml": (USER_TURNS, ()),
    "thinking_dropped": (USER_TURNS, ()),
    "tool_loop": (TOOL_TURNS, (TOOL,)),
}
TITLES = {
    "chatml": "ChatML",
    "thinking_dropped": "Thinking dropped from history, an empty think block in the generation prompt",
    "tool_loop": "A tool loop: every turn but the first ends with a tool's result",
}

Result = Mapping[str, Sequence[Mapping[str, Mapping[str, Any]]]]


def measure() -> Result:
    """Each talk twice, against two fresh servers."""
    result = {}
    with tempfile.TemporaryDirectory() as scratch:
        for style, (messages, tools) in TALKS.items():
            folder = make_tiny_model(Path(scratch) / style, FAMILY, chat_template=REPLYING[style])
            talks = {
                name: _talk(folder, flags, messages, tools, wait_for)
                for name, flags, wait_for in (
                    ("boundary", ["--no-snapshot-warmup"], Warmup.DISABLED),
                    ("warmed", [], Warmup.RUN),
                )
            }
            turns = zip(talks["boundary"], talks["warmed"], strict=True)
            result[style] = [{"boundary": plain, "warmed": warm} for plain, warm in turns]
    return result


def _talk(
    folder: Path,
    flags: Sequence[str],
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]],
    wait_for: Warmup,
) -> list[dict[str, int]]:
    with samovar("--model", str(folder), *flags, folder=folder) as server:
        turns = warm_talk(server, messages, own_tokens=own_tokens_of(folder), tools=tools, wait_for=wait_for)
    return [{key: value for key, value in asdict(turn).items() if key != "reply"} for turn in turns]


def own_tokens_of(folder: Path) -> Callable[[Mapping[str, Any]], int]:
    """How many tokens a message has, rendered alone with what makes the model reply to it."""
    tokenizer = AutoTokenizer.from_pretrained(folder)

    def own_tokens(message: Mapping[str, Any]) -> int:
        text = tokenizer.apply_chat_template([message], add_generation_prompt=True, tokenize=False)
        return len(tokenizer.encode(text, add_special_tokens=False))

    return own_tokens


def page(result: Result) -> str:
    """The whole page."""
    lines = [
        "# What warm-up saves",
        "",
        "Written by `python -m benchmarks.warmup_bench`. A tiny hybrid model (lfm2, one token a byte), whose",
        "state serves as a whole or not at all, over HTTP; the client sends back what it received, and after",
        "each reply the server has time for its warm-up. *Own* is the new message as the template shows it,",
        "with the generation prompt after it: what has to be computed in any case. What a turn computes",
        "beyond that is the previous reply, or nothing once it is warmed.",
        "[Snapshots](snapshots.md) says how it works.",
    ]
    for style, turns in result.items():
        lines += [
            "",
            f"## {TITLES[style]}",
            "",
            "| turn | prompt | own | cached, boundary alone | left | cached, with warm-up | left |",
            "|---|---|---|---|---|---|---|",
        ]
        for number, turn in enumerate(turns, start=1):
            plain, warm = turn["boundary"], turn["warmed"]
            cells = (
                number,
                plain["prompt_tokens"],
                plain["own_tokens"],
                *(value for each in (plain, warm) for value in (each["cached_tokens"], _left(each))),
            )
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join([*lines, ""])


def _left(turn: Mapping[str, Any]) -> int:
    left: int = turn["prompt_tokens"] - turn["cached_tokens"]
    return left


def current() -> str:
    """The page that the committed result makes."""
    return page(json.loads(RESULT.read_text()))


def main() -> None:
    """Measure, unless only the page is wanted, and write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", action="store_true", help="only write the page from the last result")
    if not parser.parse_args().report:
        RESULT.write_text(json.dumps(measure(), indent=2) + "\n")
    PAGE.write_text(current())


if __name__ == "__main__":
    main()
