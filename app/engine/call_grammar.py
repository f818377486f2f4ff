"""How families of models write a tool call, as a grammar: marks, the name, arguments by their schema.

Knows neither tokens nor a compiler. The formats are those of mlx-lm's parsers of the same names; white space
is as these families' templates print it.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.engine.grammar import json_rule

NEW_LINE = "\n"

_BY_LOOKS = frozenset({"array", "object"})
_BY_TYPE = _BY_LOOKS | {"integer", "number", "boolean"}

Mark = Callable[[str], str]
"""A mark's text → what a rule says for it."""


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


def call_rules(style: str, tools: Sequence[OfferedTool], mark: Mark) -> CallRules | None:
    """The rules for calls of these tools; None for a format that is not known here.

    Args:
        style: mlx-lm's name of the parser, such as `json_tools`.
        tools: at least one.
        mark: how a rule refers to a mark.
    """
    make = _STYLES.get(style)
    return None if make is None else make(tools, mark)


def text(literal: str) -> str:
    """What a rule says for this text as it stands."""
    return json.dumps(literal)


def _json_tools(tools: Sequence[OfferedTool], mark: Mark) -> CallRules:
    begin, end = mark("<tool_call>"), mark("</tool_call>")
    rest = rf'"\n"? ({_any_of(tools)}) "\n"? {end}'
    return CallRules(
        rules=(*_objects(tools), f"call_rest: {rest}"),
        one="call_rest",
        many=rf'call_rest ("\n"? {begin} call_rest)*',
    )


def _kimi_k2(tools: Sequence[OfferedTool], mark: Mark) -> CallRules:
    begin, arguments, end = (mark(f"<|tool_call_{part}|>") for part in ("begin", "argument_begin", "end"))
    section_end = mark("<|tool_calls_section_end|>")
    named = (
        f"call_{index}: {begin} {text(f'functions.{tool.name}:')} /[0-9]{{1,3}}/ {arguments}"
        f" {json_rule(tool.schema)} {end}"
        for index, tool in enumerate(tools)
    )
    return CallRules(
        rules=(*named, f"call_any: {_any_of(tools)}"),
        one=f"call_any {section_end}",
        many=f"call_any+ {section_end}",
    )


def _mistral(tools: Sequence[OfferedTool], mark: Mark) -> CallRules:
    begin, arguments = mark("[TOOL_CALLS]"), mark("[ARGS]")
    if arguments.startswith("<"):
        named = (
            f"call_{index}: {text(tool.name)} {arguments} {json_rule(tool.schema)}"
            for index, tool in enumerate(tools)
        )
        return CallRules(
            rules=(*named, f"call_any: {_any_of(tools)}"),
            one="call_any",
            many=f"call_any ({begin} call_any)*",
            text_follows=False,
        )
    # Vocabularies without that mark are of older models, which write one list of objects.
    return CallRules(
        rules=(*_objects(tools), f"call_any: {_any_of(tools)}"),
        one='" "? "[" call_any "]"',
        many='" "? "[" call_any (", " call_any)* "]"',
        text_follows=False,
    )


def _qwen3_coder(tools: Sequence[OfferedTool], mark: Mark) -> CallRules:
    begin, end = mark("<tool_call>"), mark("</tool_call>")
    rest = rf'"\n"? ({_any_of(tools)}) "\n"? {end}'
    named = tuple(
        f"call_{index}: {text(f'<function={tool.name}>{NEW_LINE}')} {_parameters(tool)} {text('</function>')}"
        for index, tool in enumerate(tools)
    )
    # The shortest text that ends with the mark. The parser takes the word null for JSON's.
    value = r"VALUE: /(.|\n)*<\/parameter>/ & ~/\n?[nN][uU][lL][lL]\n?<\/parameter>/"
    return CallRules(
        rules=(*named, f"call_rest: {rest}", "value[lazy]: VALUE", value),
        one="call_rest",
        many=rf'call_rest ("\n"? {begin} call_rest)*',
    )


def _parameters(tool: OfferedTool) -> str:
    """Each parameter between marks, in the schema's order; those that are not required may be missing."""
    needed = tool.schema.get("required", ())
    shared = {key: tool.schema[key] for key in ("$defs", "definitions") if key in tool.schema}
    said = []
    for name, schema in tool.schema.get("properties", {}).items():
        one = f"{text(f'<parameter={name}>{NEW_LINE}')} {_value(schema, shared)} {text(NEW_LINE)}"
        said.append(one if name in needed else f"({one})?")
    return " ".join(said)


def _value(schema: Any, shared: Mapping[str, Any]) -> str:
    """A value as the parser reads it: by its one type. What has none, and text but for a choice, is free."""
    asked = _resolved(schema, shared)
    end = text(NEW_LINE + "</parameter>")
    choices = asked.get("enum", [asked["const"]] if "const" in asked else [])
    if choices and all(map(_can_be_told, choices)):
        return f"({' | '.join(map(text, choices))}) {end}"
    # Behind a reference the parser sees no type, and takes for JSON what is an object or an array.
    readable = _BY_TYPE if asked is schema else _BY_LOOKS
    if asked.get("type") in readable:
        return f"{json_rule({**shared, **asked})} {end}"
    return "value"


def _resolved(schema: Any, shared: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema, or the one of the tool's definitions that it refers to."""
    if not isinstance(schema, Mapping):
        return {}
    _, _, place = str(schema.get("$ref", "")).partition("#/")
    kept, _, name = place.partition("/")
    found = shared.get(kept, {}).get(name)
    return found if isinstance(found, Mapping) else schema


def _can_be_told(choice: Any) -> bool:
    """Whether a choice is text that comes out of the parser as it went in."""
    return (
        isinstance(choice, str)
        and choice != ""
        and choice == choice.strip(NEW_LINE)
        and choice.lower() != "null"
        and choice[0] not in "[{"
        and "</parameter>" not in choice
    )


def _objects(tools: Sequence[OfferedTool]) -> tuple[str, ...]:
    """A rule for each tool's call as an object with a name and arguments.

    The arguments' schema keeps its own root, to which its references refer.
    """
    return tuple(
        f"call_{index}: {text(_head(tool.name))} {json_rule(tool.schema)} {text('}')}"
        for index, tool in enumerate(tools)
    )


def _head(name: str) -> str:
    return f'{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": '


def _any_of(tools: Sequence[OfferedTool]) -> str:
    return " | ".join(f"call_{index}" for index in range(len(tools)))


_STYLES: Mapping[str, Callable[[Sequence[OfferedTool], Mark], CallRules]] = {
    "json_tools": _json_tools,
    "kimi_k2": _kimi_k2,
    "mistral": _mistral,
    "qwen3_coder": _qwen3_coder,
}
