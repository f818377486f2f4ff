"""A tool loop in the way each style of model calls: what comes to the model, and the lines it says to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.scripted_model import make_scripted_model
from tests.support.templates import HERMES, THINKING_CALLS, TOOL_LOOP, XML_CALLS

TOWNS = ("Bern", "Basel", "Chur")

TOOL: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "What the sky is like over a town.",
        "parameters": {
            "type": "object",
            "properties": {"town": {"type": "string"}, "days": {"type": "integer"}},
        },
    },
}

QUESTION: Mapping[str, Any] = {"role": "user", "content": "What will the weather be in each of the towns?"}


def results(towns: Sequence[str]) -> tuple[Mapping[str, Any], ...]:
    """What the tool says of each town."""
    return tuple(
        {"role": "tool", "content": f'{{"sky": "clear", "wind": "from the west", "town": "{town}"}}'}
        for town in towns
    )


TURNS = (QUESTION, *results(TOWNS))
"""One question, then a result of each call; the last is followed by the answer."""

CALLS = tuple(f'weather {{"town": "{town}", "days": 2}}' for town in TOWNS)
"""What is called in each turn but the last, name and arguments."""

ANSWER = "It will be clear in all three."


@dataclass(frozen=True, slots=True)
class Style:
    """How a model writes a call, before and after which words, and the template that shows it again."""

    template: str
    call: str
    first: str = ""
    thinks: bool = False


_JSON = '<tool_call>\n{"name": "weather", "arguments": {"town": "TOWN", "days": 2}}\n</tool_call>'

STYLES: Mapping[str, Style] = {
    "tool_loop": Style(
        TOOL_LOOP, '<tool_call>{"name": "weather", "arguments": {"town": "TOWN", "days": 2}}</tool_call>'
    ),
    "hermes": Style(HERMES, _JSON, first="Let me look.\n"),
    "xml_calls": Style(
        XML_CALLS,
        "<tool_call>\n<function=weather>\n<parameter=town>\nTOWN\n</parameter>\n"
        "<parameter=days>\n2\n</parameter>\n</function>\n</tool_call>",
    ),
    "thinking_calls": Style(
        THINKING_CALLS, f"<think>\nTOWN is still missing.\n</think>\n\n{_JSON}", thinks=True
    ),
}


def make_calling_model(
    folder: Path, family: str, style: str, towns: Sequence[str] = TOWNS, **options: Any
) -> Path:
    """The folder of a model that plays its part of the loop in that style: a call for each town, in turn."""
    of = STYLES[style]
    lines = [of.call.replace("TOWN", town) for town in towns]
    answer = f"<think>\nThat is all.\n</think>\n\n{ANSWER}" if of.thinks else ANSWER
    said = [of.first + lines[0], *lines[1:], answer]
    return make_scripted_model(
        folder,
        family,
        [((message,), line) for message, line in zip((QUESTION, *results(towns)), said, strict=True)],
        chat_template=of.template,
        more_tokens=("<think>", "</think>") if of.thinks else (),
        **options,
    )
