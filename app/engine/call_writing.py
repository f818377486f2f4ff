"""What the grammars of all forms of calls are made of. Knows no form, no tokens and no compiler."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.engine.parameter_types import readable
from app.engine.tool_calls import ToolFormat
from app.errors import RequestError

Mark = Callable[[str], str]
"""A mark's text → what a rule says for it."""

ANY_TEXT = r"(.|\n)*"


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool that may be called. `schema`: of its arguments, which are an object."""

    name: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRules:
    """Rules of a grammar, in the library's form of Lark.

    `one` and `many` say what follows the mark that begins a call: the rest of one call, or of one and more.
    `text_follows`: whether a call has an end, so that text may come after it.
    """

    rules: tuple[str, ...]
    one: str
    many: str
    text_follows: bool = True


def text(literal: str) -> str:
    """What a rule says for this text as it stands."""
    return json.dumps(literal, ensure_ascii=False)


def escaped(literal: str) -> str:
    """The text in a pattern: every character as its code point, so that none means anything."""
    return "".join(f"\\x{{{ord(character):x}}}" for character in literal)


def any_of(tools: Sequence[OfferedTool]) -> str:
    """One of the rules `call_0`, `call_1` and so on."""
    return " | ".join(f"call_{index}" for index in range(len(tools)))


def without(*words: str) -> str:
    """A pattern's further condition: that none of these comes in it."""
    return "".join(rf" & ~/(.|\n)*{escaped(word)}(.|\n)*/" for word in words if word)


def ordered(name: str, items: Sequence[tuple[str, bool]], separator: str) -> tuple[str, list[str]]:
    """Items in their order, with separators between those that are there; and rules that this needs.

    Args:
        name: what the rules' names begin with.
        items: what a rule says for each, and whether it has to be there. Without items the result is empty.
        separator: what a rule says for it.
    """
    rules: list[str] = []
    begins: list[str] = []
    for index, (item, needed) in enumerate(items):
        rules.append(f"{name}_{index}: {item}")
        more = f"{separator} {name}_{index}"
        rules.append(f"{name}_from_{index}: {more if needed else f'({more})?'} {name}_from_{index + 1}")
        if not any(needed for _, needed in items[:index]):
            begins.append(f"{name}_{index} {name}_from_{index + 1}")
    rules.append(f'{name}_from_{len(items)}: ""')
    if not any(needed for _, needed in items):
        begins.append('""')
    return f"({' | '.join(begins)})", rules if items else []


def arguments_read(style: ToolFormat, tool: OfferedTool, written: str) -> Mapping[str, Any] | None:
    """What mlx-lm's parser makes of one call of the tool; None where it makes something else of it."""
    offered = {"type": "function", "function": {"name": tool.name, "parameters": tool.schema}}
    try:
        parsed = style.parse(written, [readable(offered)])
    # A parser is a program, and can fail in any way its author left open.
    except Exception:  # noqa: BLE001
        return None
    calls = parsed if isinstance(parsed, list) else [parsed]
    if len(calls) != 1 or not isinstance(calls[0], Mapping) or calls[0].get("name") != tool.name:
        return None
    arguments = calls[0].get("arguments")
    return arguments if isinstance(arguments, Mapping) else None


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are one: to Python 1 is True as well."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def unsayable(style: ToolFormat, tool: OfferedTool, what: str) -> RequestError:
    """That a call of the tool cannot be written in the model's way, because of `what`."""
    return RequestError(
        f"tools: '{tool.name}' cannot be called in this model's way of writing calls ({style.name}): {what}.",
        param="tools",
        code="unsupported_schema",
    )
