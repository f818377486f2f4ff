"""Forms of calls whose arguments are literals of their own, as grammars: Python's, and the Gemma families'.

Text in Gemma's literals stands between two marks, with nothing escaped: there it is free but for the marks.
"""

import keyword
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from app.engine.call_writing import (
    CallRules,
    Mark,
    OfferedTool,
    any_of,
    arguments_read,
    escaped,
    ordered,
    text,
    unsayable,
    without,
)
from app.engine.grammar import json_rule
from app.engine.literal_schema import LiteralSchema, Unwritable
from app.engine.parameter_types import definitions_of, parameters_of
from app.engine.tool_calls import ToolFormat

_IS_WORD = re.compile(r"\w+").fullmatch


def pythonic(style: ToolFormat, tools: Sequence[OfferedTool], mark: Mark) -> CallRules:
    """A list of Python calls. JSON between brackets is Python to the parser, and each value is JSON."""
    rules = [rf"NAME: /[A-Za-z_][A-Za-z0-9_]{{0,63}}/ & ~/{'|'.join(keyword.kwlist)}/"]
    for index, tool in enumerate(tools):
        _require_name(style, tool, f"[{tool.name}()]", sayable=all(map(_is_python, tool.name.split("."))))
        if _is_open(tool):
            some = f'NAME "=" {json_rule({})}'
            rules.append(f'call_{index}: {text(f"{tool.name}(")} ({some} (", " {some})*)? ")"')
            continue
        items = [
            (f"{text(f'{name}=')} {json_rule({**definitions_of(tool.schema), **schema})}", needed)
            for name, schema, needed in _parameters(style, tool, "[{tool}({name}=0)]", is_name=_is_python)
        ]
        rules += _call(f"call_{index}", f"{tool.name}(", items, ")", separator=", ")
    end = mark(style.end)
    rules.append(f"call_any: {any_of(tools)}")
    return CallRules(
        rules=tuple(rules), one=f'"[" call_any "]" {end}', many=f'"[" call_any (", " call_any)* "]" {end}'
    )


def gemma4(style: ToolFormat, tools: Sequence[OfferedTool], mark: Mark) -> CallRules:
    """Objects and lists as JSON has them, but for keys without quotes and text between marks."""
    return _gemma(style, tools, mark, quote='<|"|>', outside=r"(.|\n)", flat=False)


def function_gemma(style: ToolFormat, tools: Sequence[OfferedTool], mark: Mark) -> CallRules:
    """Numbers, truth values and text: the parser ends a call at the first brace, and a value at a comma."""
    return _gemma(style, tools, mark, quote="<escape>", outside="[^}]", flat=True)


def _gemma(
    style: ToolFormat, tools: Sequence[OfferedTool], mark: Mark, *, quote: str, outside: str, flat: bool
) -> CallRules:
    marked = mark(quote)
    if marked.startswith("<"):
        rules = [
            f"string: {marked} STRING? {marked}",
            f"STRING: /{outside}+/{without(quote, style.end)}",
        ]
    else:
        # The shortest text that ends with the mark.
        rules = [
            f"string: {marked} string_rest",
            "string_rest[lazy]: STRING",
            f"STRING: /{outside}*{escaped(quote)}/{without(style.end)}",
        ]
    for index, tool in enumerate(tools):
        rule = f"call_{index}"
        _require_name(style, tool, f"call:{tool.name}{{}}")
        schemas = LiteralSchema(
            rule, tool.schema, quote=marked, kept_out=(quote, style.end, "}" if flat else ""), flat=flat
        )
        if _is_open(tool):
            some = f"{schemas.key} {schemas.any_value()}"
            rules.append(f'{rule}: {text(f"call:{tool.name}{{")} ({some} ("," {some})*)? "}}"')
            rules += schemas.rules
            continue
        items = []
        for name, schema, needed in _parameters(style, tool, "call:{tool}{{{name}:0}}", is_name=_IS_WORD):
            try:
                items.append((f"{text(f'{name}:')} {schemas.value(schema)}", needed))
            except Unwritable as error:
                if needed:
                    raise unsayable(style, tool, f"its parameter '{name}' {error}") from error
        rules += [*schemas.rules, *_call(rule, f"call:{tool.name}{{", items, "}", separator=",")]
    begin, end = mark(style.start), mark(style.end)
    rules.append(f"call_rest: ({any_of(tools)}) {end}")
    return CallRules(rules=tuple(rules), one="call_rest", many=rf'call_rest ("\n"? {begin} call_rest)*')


def _call(
    rule: str, head: str, items: Sequence[tuple[str, bool]], tail: str, *, separator: str
) -> Sequence[str]:
    if not items:
        return [f"{rule}: {text(head + tail)}"]
    said, rules = ordered(f"{rule}_item", items, text(separator))
    return [*rules, f"{rule}: {text(head)} {said} {text(tail)}"]


def _parameters(
    style: ToolFormat, tool: OfferedTool, sample: str, *, is_name: Callable[[str], Any]
) -> list[tuple[str, Mapping[str, Any], bool]]:
    """Name, schema and need of each parameter whose name the parser reads; `sample` is a call with one."""
    needed = tool.schema.get("required", ())
    found = []
    for name, schema in parameters_of(tool.schema).items():
        written = sample.format(tool=tool.name, name=name)
        if is_name(name) and arguments_read(style, tool, written) == {name: 0}:
            found.append((name, schema, name in needed))
        elif name in needed:
            raise unsayable(style, tool, f"its parameter '{name}' cannot be read there")
    return found


def _is_python(name: str) -> bool:
    """Whether it is a name in Python. The parser reads some calls with others as well, but not all values."""
    return name.isidentifier() and not keyword.iskeyword(name)


def _require_name(style: ToolFormat, tool: OfferedTool, call: str, *, sayable: bool = True) -> None:
    if not sayable or arguments_read(style, tool, call) != {}:
        raise unsayable(style, tool, "its name is not one that can be read there")


def _is_open(tool: OfferedTool) -> bool:
    """Whether the schema names no parameters, and allows any."""
    return "properties" not in tool.schema and tool.schema.get("additionalProperties") is not False
