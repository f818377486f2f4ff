"""Tokens left to compute each turn, with the boundary alone and with warm-up, on a tiny hybrid model.

`python -m benchmarks.warmup_bench` measures, keeps the result in `benchmarks/results/` and writes
docs/warmup.md from it; with `--report` it only writes the page. Counts, not times: they are the same on
every machine.
"""

import argparse
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mlx_lm.tokenizer_utils import load as load_tokenizer

from app.vocabulary import Warmup
from tests.support.process import samovar
from tests.support.templates import REPLYING
from tests.support.tiny import make_tiny_model
from tests.support.tool_talk import TOOL, TURNS, make_calling_model
from tests.support.warm_talk import USER_TURNS, warm_talk

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "warmup.md"
RESULT = ROOT / "benchmarks" / "results" / "warmup.json"

FAMILY = "lfm2"


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation to be measured: the client's messages, and the model it is with."""

    title: str
    messages: Sequence[Mapping[str, Any]]
    model: Callable[[Path, str, str], Path]
    flags: Sequence[str] = ()
    tools: Sequence[Mapping[str, Any]] = ()
    max_tokens: int = 40
    last: Warmup | None = None
    """What becomes of the warm-up after the last reply, where it is not run like the others."""


def _chatting(folder: Path, family: str, style: str) -> Path:
    return make_tiny_model(folder, family, chat_template=REPLYING[style])


def _loop(title: str, *, last: Warmup | None = None) -> Talk:
    # The model brings the code that makes it call tools.
    return Talk(
        title, TURNS, make_calling_model, ("--trust-remote-code",), (TOOL,), max_tokens=200, last=last
    )


TALKS: Mapping[str, Talk] = {
    "chatml": Talk("ChatML", USER_TURNS, _chatting),
    "thinking_dropped": Talk(
        "Thinking dropped from history, an empty think block in the generation prompt", USER_TURNS, _chatting
    ),
    "tool_loop": _loop("A tool loop: calls as JSON, results as turns of their own"),
    "hermes": _loop("A tool loop: text and calls as JSON, results in user turns"),
    "xml_calls": _loop("A tool loop: calls as tags, one for each argument"),
    # The next question drops the thinking of the whole loop, so that no state of the loop serves it.
    "thinking_calls": _loop(
        "A tool loop: thinking before each call, which the client does not send back", last=Warmup.DIVERGED
    ),
}

Result = Mapping[str, Sequence[Mapping[str, Mapping[str, Any]]]]


def measure() -> Result:
    """Each talk twice, against two fresh servers."""
    result = {}
    with tempfile.TemporaryDirectory() as scratch:
        for style, talk in TALKS.items():
            folder = talk.model(Path(scratch) / style, FAMILY, style)
            plain = _talk(folder, ["--no-snapshot-warmup"], talk, Warmup.DISABLED)
            warmed = _talk(folder, [], talk, Warmup.RUN)
            turns = zip(plain, warmed, strict=True)
            result[style] = [{"boundary": plain, "warmed": warm} for plain, warm in turns]
    return result


def _talk(folder: Path, flags: Sequence[str], talk: Talk, wait_for: Warmup) -> list[dict[str, int]]:
    with samovar("--model", str(folder), *talk.flags, *flags, folder=folder) as server:
        turns = warm_talk(
            server,
            talk.messages,
            own_tokens=own_tokens_of(folder),
            tools=talk.tools,
            max_tokens=talk.max_tokens,
            wait_for=wait_for,
            last=talk.last if wait_for is Warmup.RUN else None,
        )
    return [
        {key: value for key, value in asdict(turn).items() if key not in ("reply", "calls")} for turn in turns
    ]


def own_tokens_of(folder: Path) -> Callable[[Mapping[str, Any]], int]:
    """How many tokens a message has, rendered alone with what makes the model reply to it."""
    tokenizer = load_tokenizer(folder)

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
        "beyond that is the previous reply, or nothing once it is warmed. In the tool loops every turn but",
        "the first is a tool's result, and every reply but the last a call that the model is made to write.",
        "[Snapshots](snapshots.md) says how it works.",
    ]
    for style, turns in result.items():
        lines += [
            "",
            f"## {TALKS[style].title}",
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
