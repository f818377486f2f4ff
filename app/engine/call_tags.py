"""Forms of calls that write each parameter between tags, as grammars.

Parsers of these forms read some values as JSON and others as the text they are; a grammar writes each so that
it comes out as it went in. Where that depends on the words, the parser itself is asked.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.engine.call_writing import (
    ANY_TEXT,
    CallRules,
    Mark,
    OfferedTool,
    any_of,
    arguments_read,
    escaped,
    ordered,
    same,
    text,
    unsayable,
    without,
)
from app.engine.grammar import json_rule
from app.engine.parameter_types import choices_of, definitions_of, parameters_of, types_of
from app.engine.tool_calls import ToolFormat

_NAME = r"/[A-Za-z0-9_.-]{1,64}/"
"""Of a parameter, where the schema names none."""

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TagForm:
    """How a form writes a call; `{}` in a piece is the tool's or the parameter's name.

    Args:
        marks: what the vocabularies of such models may have tokens of their own for.
        head, tail: before the parameters and after them.
        opens, closes: before a value and after it.
        ends_text: the part of `closes` that ends a value which is text.
        ends_call: what would end the call if it came in such a value, besides the mark after the call.
        between: after each parameter.
        around: white space that may stand at a call's edges.
        is_text: whether the parser takes a parameter's value for the text it is.
        null_is_none: whether the word null is no text even there.
        strict_lines: whether new lines have to be as they are here.
        grouped: whether several calls share one pair of marks.
        without_parameters: a call without any, where that is more than head and tail.
    """

    opens: str
    closes: str
    is_text: Callable[[Schema], bool]
    head: str
    tail: str = ""
    marks: tuple[str, ...] = ()
    ends_text: str
    between: str = ""
    around: str = "\n"
    ends_call: str = ""
    null_is_none: bool = False
    strict_lines: bool = False
    grouped: bool = False
    without_parameters: str = ""

    def written(self, tool: str, parameters: Mapping[str, str]) -> str:
        """A call with these texts as its parameters' values."""
        if not parameters and self.without_parameters:
            return self.without_parameters.replace("{}", tool)
        said = "".join(
            f"{self.opens.replace('{}', name)}{value}{self.closes}{self.between}"
            for name, value in parameters.items()
        )
        return f"{self.head.replace('{}', tool)}{said}{self.tail}"


def tagged(form: TagForm, style: ToolFormat, tools: Sequence[OfferedTool], mark: Mark) -> CallRules:
    """The rules of such a form."""
    begin, end = mark(style.start), mark(style.end)
    writer = _Writer(form, style, mark)
    rules = [rule for index, tool in enumerate(tools) for rule in writer.call(f"call_{index}", tool)]
    around = f"{text(form.around)}? " if form.around else ""
    one = f"{around}({any_of(tools)}) {around}"
    rest = f"call_rest: {one}{end}"
    rules += [*writer.text_rules(), rest]
    if form.grouped:
        return CallRules(rules=(*rules, f"call_more: {one}"), one="call_rest", many=f"call_more+ {end}")
    return CallRules(rules=tuple(rules), one="call_rest", many=f"call_rest ({around}{begin} call_rest)*")


class _Writer:
    """Writes rules of one form for one vocabulary."""

    def __init__(self, form: TagForm, style: ToolFormat, mark: Mark) -> None:
        self._form = form
        self._style = style
        self._mark = mark

    def call(self, rule: str, tool: OfferedTool) -> list[str]:
        """The rule of a tool's call, and those that it needs."""
        form = self._form
        if arguments_read(self._style, tool, form.written(tool.name, {})) is None:
            raise unsayable(self._style, tool, "its name is not one that can be read there")
        head, tail = self._said(form.head, tool.name), self._said(form.tail)
        bare = self._said(form.without_parameters, tool.name)
        if "properties" not in tool.schema and tool.schema.get("additionalProperties") is not False:
            before, after = (self._said(part) for part in form.opens.split("{}"))
            some = f"({before} {_NAME} {after} {self._free()} {self._said(form.between)})"
            return [f"{rule}: ({head} {some}+ {tail} | {bare})" if bare else f"{rule}: {head} {some}* {tail}"]
        items = [
            (f"{self._said(form.opens, name)} {value} {self._said(form.between)}", name in _needed(tool))
            for name, value in self._values(tool)
        ]
        if not bare:
            said = " ".join(item if needed else f"({item})?" for item, needed in items)
            return [f"{rule}: {head} {said} {tail}"]
        if not items:
            return [f"{rule}: {bare}"]
        rules, choices = [], [bare] if not any(needed for _, needed in items) else []
        # Not without parameters at all: that is written in another way.
        for first in range(len(items)):
            some, more = ordered(f"{rule}_{first}", [(items[first][0], True), *items[first + 1 :]], '""')
            rules += more
            choices.append(f"{head} {some} {tail}")
            if items[first][1]:
                break
        return [*rules, f"{rule}: {' | '.join(choices)}"]

    def text_rules(self) -> list[str]:
        """The rules of a value that is any text up to its end."""
        form = self._form
        close = self._mark(form.ends_text)
        null = r"\s*[nN][uU][lL][lL]\s*"
        ends = {self._style.end, form.ends_call} - {form.ends_text}
        if close.startswith("<"):
            bound = without(form.ends_text, *sorted(ends)) + (f" & ~/{null}/" if form.null_is_none else "")
            return [f"value: VALUE? {close}", rf"VALUE: /(.|\n)+/{bound}"]
        # The shortest text that ends with the mark.
        bound = without(*sorted(ends))
        bound += f" & ~/{null}{escaped(form.ends_text)}/" if form.null_is_none else ""
        return ["value[lazy]: VALUE", f"VALUE: /{ANY_TEXT}{escaped(form.ends_text)}/{bound}"]

    def _values(self, tool: OfferedTool) -> list[tuple[str, str]]:
        """Each parameter that the form can write, and what a rule says for its value and closing tag."""
        found = []
        for name, schema in parameters_of(tool.schema).items():
            if self._reads(tool, name, "0") is None:
                if name in _needed(tool):
                    raise unsayable(self._style, tool, f"its parameter '{name}' cannot be read there")
                continue
            found.append((name, self._value(tool, name, schema)))
        return found

    def _value(self, tool: OfferedTool, name: str, schema: Schema) -> str:
        close = self._said(self._form.closes)
        choices = choices_of(schema)
        if choices is not None:
            said = [choice for each in choices if (choice := self._choice(tool, name, each)) is not None]
            if not said:
                raise unsayable(self._style, tool, f"no choice of its parameter '{name}' can be read there")
            return f"({' | '.join(map(text, said))}) {close}"
        if self._form.is_text(schema):
            return self._free()
        return f"{json_rule({**definitions_of(tool.schema), **schema})} {close}"

    def _choice(self, tool: OfferedTool, name: str, choice: Any) -> str | None:
        """How the form writes this value, so that it comes out as it went in; None where it has no way."""
        forms = [json.dumps(choice, ensure_ascii=False)]
        if isinstance(choice, str):
            forms.insert(0, choice)
        for said in forms:
            read = self._reads(tool, name, said)
            if self._style.end not in said and read is not None and same(read[0], choice):
                return said
        return None

    def _reads(self, tool: OfferedTool, name: str, value: str) -> tuple[Any] | None:
        """What the parser makes of this parameter alone, if it finds it."""
        read = arguments_read(self._style, tool, self._form.written(tool.name, {name: value}))
        return None if read is None or read.keys() != {name} else (read[name],)

    def _free(self) -> str:
        """Any text, or any JSON where the form has no text of its own, up to the closing tag."""
        if self._form.is_text({}) or self._form.is_text({"type": "string"}):
            return "value"
        return f"{json_rule({})} {self._said(self._form.closes)}"

    def _said(self, piece: str, name: str = "") -> str:
        """What a rule says for a piece of the form: text, and marks with tokens of their own."""
        marks = "|".join(
            map(re.escape, (*self._form.marks, "{}", *([] if self._form.strict_lines else "\n")))
        )
        said = [self._part(part, name) for part in re.split(f"({marks})", piece) if part]
        return " ".join(said)

    def _part(self, part: str, name: str) -> str:
        if part == "{}":
            return text(name)
        if part == "\n":
            return f"{text(part)}?"
        return self._mark(part) if part in self._form.marks else text(part)


def _needed(tool: OfferedTool) -> Sequence[str]:
    needed: Sequence[str] = tool.schema.get("required", ())
    return needed


def _is_string(schema: Schema) -> bool:
    return schema.get("type") == "string"


def _may_be_string(schema: Schema) -> bool:
    types = types_of(schema)
    return not types or "string" in types


def _has_no_json_type(schema: Schema) -> bool:
    return schema.get("type") not in ("integer", "number", "boolean", "array", "object", "null")


_GLM = TagForm(
    marks=("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"),
    head="{}\n",
    opens="<arg_key>{}</arg_key>\n<arg_value>",
    closes="</arg_value>",
    ends_text="</arg_value>",
    between="\n",
    is_text=_is_string,
)

FORMS: Mapping[str, TagForm] = {
    "glm47": _GLM,
    "laguna": _GLM,
    "longcat": TagForm(
        marks=("<longcat_arg_key>", "</longcat_arg_key>", "<longcat_arg_value>", "</longcat_arg_value>"),
        head="{}\n",
        opens="<longcat_arg_key>{}</longcat_arg_key>\n<longcat_arg_value>",
        closes="</longcat_arg_value>",
        ends_text="</longcat_arg_value>",
        between="\n",
        is_text=_is_string,
        without_parameters='{"name": "{}", "arguments": { }}',
    ),
    "minicpm5": TagForm(
        head='"{}">',
        opens='<param name="{}">',
        closes="</param>",
        ends_text="</param>",
        around="",
        is_text=_may_be_string,
        null_is_none=True,
    ),
    "minimax_m2": TagForm(
        head='<invoke name="{}">\n',
        opens='<parameter name="{}">',
        closes="</parameter>",
        ends_text="</parameter>",
        between="\n",
        tail="</invoke>",
        ends_call="</invoke>",
        is_text=_may_be_string,
        null_is_none=True,
        grouped=True,
    ),
    "muse_spark": TagForm(
        head='<atem:invoke name="{}">\n',
        opens='<atem:parameter name="{}">',
        closes="</atem:parameter>",
        ends_text="</atem:parameter>",
        between="\n",
        tail="</atem:invoke>",
        is_text=lambda _schema: False,
        grouped=True,
    ),
    "qwen3_coder": TagForm(
        head="<function={}>\n",
        opens="<parameter={}>\n",
        closes="\n</parameter>",
        ends_text="</parameter>",
        between="\n",
        tail="</function>",
        is_text=_has_no_json_type,
        null_is_none=True,
        strict_lines=True,
    ),
}
"""mlx-lm's name of the parser → the form; new lines that parsers do not ask for may be left out."""
