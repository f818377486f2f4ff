"""Forms of calls whose arguments are JSON, as grammars: marks, the name, arguments by their schema.

White space is as these families' templates print it.
"""

import json
from collections.abc import Sequence

from app.engine.call_writing import CallRules, Mark, OfferedTool, any_of, text
from app.engine.grammar import json_rule
from app.engine.tool_calls import ToolFormat


def json_tools(_style: ToolFormat, tools: Sequence[OfferedTool], mark: Mark) -> CallRules:
    """An object with a name and arguments between marks."""
    begin, end = mark("<tool_call>"), mark("</tool_call>")
    rest = rf'"\n"? ({any_of(tools)}) "\n"? {end}'
    return CallRules(
        rules=(*_objects(tools), f"call_rest: {rest}"),
        one="call_rest",
        many=rf'call_rest ("\n"? {begin} call_rest)*',
    )


def kimi_k2(_style: ToolFormat, tools: Sequence[OfferedTool], mark: Mark) -> CallRules:
    """A section of calls, each with its number."""
    begin, arguments, end = (mark(f"<|tool_call_{part}|>") for part in ("begin", "argument_begin", "end"))
    section_end = mark("<|tool_calls_section_end|>")
    named = (
        f"call_{index}: {begin} {text(f'functions.{tool.name}:')} /[0-9]{{1,3}}/ {arguments}"
        f" {json_rule(tool.schema)} {end}"
        for index, tool in enumerate(tools)
    )
    return CallRules(
        rules=(*named, f"call_any: {any_of(tools)}"),
        one=f"call_any {section_end}",
        many=f"call_any+ {section_end}",
    )


def mistral(_style: ToolFormat, tools: Sequence[OfferedTool], mark: Mark) -> CallRules:
    """A name, a mark and arguments; in older models a list of objects. Nothing ends it but the reply."""
    begin, arguments = mark("[TOOL_CALLS]"), mark("[ARGS]")
    if arguments.startswith("<"):
        named = (
            f"call_{index}: {text(tool.name)} {arguments} {json_rule(tool.schema)}"
            for index, tool in enumerate(tools)
        )
        return CallRules(
            rules=(*named, f"call_any: {any_of(tools)}"),
            one="call_any",
            many=f"call_any ({begin} call_any)*",
            text_follows=False,
        )
    # Vocabularies without that mark are of older models, which write one list of objects.
    return CallRules(
        rules=(*_objects(tools), f"call_any: {any_of(tools)}"),
        one='" "? "[" call_any "]"',
        many='" "? "[" call_any (", " call_any)* "]"',
        text_follows=False,
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
