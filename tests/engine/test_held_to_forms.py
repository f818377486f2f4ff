"""Every form of calls that has a grammar: what it allows, mlx-lm's parser reads as that very call."""

import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from app.chat import ToolUse
from app.engine.call_grammar import KNOWN
from app.engine.constraint import ReplyConstraint
from app.errors import RequestError
from tests.support.held import Holding, Said, holding_of
from tests.support.marked import marked_model
from tests.support.random_tools import PLAIN_NAMES, tools
from tests.support.random_walks import random_reply
from tests.support.tool_formats import FORMATS, TOOL

END = 257

MARKS: dict[str, tuple[str, ...]] = {
    "function_gemma": ("<start_function_call>", "<end_function_call>", "<escape>"),
    "gemma4": ("<|tool_call>", "<tool_call|>", '<|"|>'),
    "glm47": ("<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"),
    "json_tools": ("<tool_call>", "</tool_call>"),
    "kimi_k2": (
        *("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>"),
        *("<|tool_call_argument_begin|>", "<|tool_call_end|>"),
    ),
    "longcat": (
        *("<longcat_tool_call>", "</longcat_tool_call>", "<longcat_arg_key>", "</longcat_arg_key>"),
        *("<longcat_arg_value>", "</longcat_arg_value>"),
    ),
    "minicpm5": (),
    "minimax_m2": ("<minimax:tool_call>", "</minimax:tool_call>"),
    "mistral": ("[TOOL_CALLS]", "[ARGS]"),
    "muse_spark": (),
    "pythonic": ("<|tool_call_start|>", "<|tool_call_end|>"),
    "qwen3_coder": ("<tool_call>", "</tool_call>"),
}
"""The marks for which the vocabularies of such models have tokens."""

URGES = {
    "function_gemma": ("<escape>",),
    "gemma4": ('<|"|>',),
    "glm47": ("</arg_value>",),
    "longcat": ("</longcat_arg_value>",),
    "minicpm5": ("</param>", "</function>"),
    "minimax_m2": ("</parameter>", "</invoke>"),
    "qwen3_coder": ("\n</parameter>",),
}
"""What a random walk has to set out for, as it would never come by it."""

STYLES = {
    **{name: (name, marks) for name, marks in MARKS.items()},
    "laguna": ("laguna", MARKS["glm47"]),
    **{f"{name}, marks spelled": (name, ()) for name, marks in MARKS.items() if marks and name != "mistral"},
    "mistral, lists": ("mistral", ("[TOOL_CALLS]",)),
}
FLAT = {"function_gemma", "function_gemma, marks spelled"}
"""Forms that have no way to write lists and objects."""


@pytest.fixture(scope="module")
def holding(tmp_path_factory) -> Callable[[str], Holding]:
    """A model that writes its calls in that style."""
    return holding_of(tmp_path_factory.mktemp("forms"), STYLES)


def held_to(holding: Holding, use: ToolUse, **more: Any) -> ReplyConstraint:
    """What such a reply is held to."""
    held = holding.held(tools=use, **more)
    assert isinstance(held, ReplyConstraint)
    return held


def drawn(holding: Holding, style: str, use: ToolUse, seed: int) -> Said:
    """A reply that was drawn from what is allowed."""
    held = held_to(holding, use)
    said = random_reply(holding, held, end=END, seed=seed, urges=URGES.get(STYLES[style][0], ()))
    return holding.read(said, tools=use)


def function(name: str, parameters: Any = None, **more: Any) -> dict[str, Any]:
    """A tool as a request has it."""
    told = {"name": name, **({} if parameters is None else {"parameters": parameters}), **more}
    return {"type": "function", "function": told}


def test_every_form_with_a_grammar_is_tested_here() -> None:
    """A new one needs its marks above, and a form that was left out is found."""
    assert {parser for parser, _ in STYLES.values()} == set(KNOWN)


@pytest.mark.parametrize("style", STYLES)
@settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_what_is_drawn_from_the_grammar_is_read_as_calls_of_the_schemas(holding, style, data) -> None:
    """Random tools, random replies: nothing but calls, of offered tools, with arguments of their schemas."""
    offered = data.draw(tools(flat=style in FLAT))
    use = ToolUse(tools=tuple(offered), must=True, parallel=data.draw(st.booleans()))
    said = drawn(holding(style), style, use, seed=data.draw(st.integers(0, 2**32)))

    schemas = {each["function"]["name"]: each["function"].get("parameters") for each in offered}
    assert said.content == ""
    assert said.calls
    assert use.parallel or len(said.calls) == 1
    for call in said.calls:
        jsonschema.validate(json.loads(call.arguments), schemas[call.name] or {"maxProperties": 0})


@pytest.mark.parametrize("style", STYLES)
def test_what_models_were_taught_to_write_is_allowed(holding, style) -> None:
    """The family's own text of a call, token by token, up to the end of the turn."""
    if style == "mistral, lists":
        taught = (
            '[TOOL_CALLS] [{"name": "weather", "arguments": {"town": "Zürich", "days": 3, "hours": [6]}}]'
        )
    else:
        taught = FORMATS[STYLES[style][0]]
    tool = TOOL
    if style in FLAT:
        # With a list, the form's parser reads one of a single number alone.
        taught = taught.replace(",hours:[6]", "")
        tool = function("weather", {"properties": {"town": {"type": "string"}, "days": {"type": "integer"}}})
    of = holding(style)
    walk = held_to(of, ToolUse(tools=(tool,), must=True)).begin()
    for token in (*of.model.tokenise(taught, special=False), END):
        assert walk.allowed()[token // 8] >> token % 8 & 1, of.model.text_of([token])
        walk.take(token)
    assert walk.failure == ""


@pytest.mark.parametrize("style", STYLES)
def test_a_tool_of_any_arguments_is_called_with_any(holding, style) -> None:
    """Where the schema names no parameters, the model may."""
    use = ToolUse(tools=(function("note", {"type": "object"}),), must=True)
    some = [drawn(holding(style), style, use, seed) for seed in range(6)]

    assert all(call.name == "note" for said in some for call in said.calls)
    assert any(json.loads(call.arguments) for said in some for call in said.calls)


@pytest.mark.parametrize("style", STYLES)
def test_text_stays_free_until_a_strict_tool_is_called(holding, style) -> None:
    """And a call in the midst of text has arguments of its schema."""
    schema = {"properties": {"town": {"enum": ["Bern", "Chur"]}}, "required": ["town"]}
    use = ToolUse(tools=(function("weather", schema, strict=True),))
    of = holding(style)
    begin, _, rest = FORMATS[STYLES[style][0]].partition("weather")
    parser = STYLES[style][0]
    urges = (begin, *URGES.get(parser, ()))
    calls = []
    for seed in range(6):
        said = of.read(random_reply(of, held_to(of, use), end=END, seed=seed, urges=urges), tools=use)
        calls += said.calls
    assert rest
    for call in calls:
        assert call.name == "weather"
        jsonschema.validate(json.loads(call.arguments), schema)


@pytest.mark.parametrize(
    ("style", "name"),
    [("function_gemma", "to-do"), ("pythonic", "to-do"), ("pythonic", "class"), ("minicpm5", 'a"b')],
)
def test_a_name_that_the_form_cannot_write_is_refused(holding, style, name) -> None:
    """The parser would find no call, or one of another tool."""
    with pytest.raises(RequestError, match=f"'{name}' cannot be called in this model's way") as refused:
        holding(style).held(tools=ToolUse(tools=(function(name),), must=True))
    assert (refused.value.status, refused.value.param) == (400, "tools")


@pytest.mark.parametrize(
    ("style", "parameter", "schema"),
    [
        ("pythonic", "from", {"type": "string"}),
        ("gemma4", "two words", {"type": "string"}),
        ("gemma4", "many", {"type": "array", "uniqueItems": True}),
        ("gemma4", "either", {"oneOf": [{"type": "integer"}, {"type": "number"}]}),
        ("gemma4", "deep", {"type": "object", "properties": {"a-b": {}}, "required": ["a-b"]}),
        ("function_gemma", "towns", {"type": "array", "items": {"type": "string"}}),
        ("qwen3_coder", "two words", {"type": "string"}),
        ("minimax_m2", "a>b", {"type": "string"}),
        ("glm47", "mark", {"type": "string", "enum": ["</arg_value>"]}),
        ("minicpm5", "word", {"const": "null"}),
    ],
)
def test_a_parameter_that_the_form_cannot_write_is_refused_where_it_is_needed(
    holding, style, parameter, schema
) -> None:
    """By its name; where a call is one without it, it is left out."""
    needed = {"type": "object", "properties": {parameter: schema}, "required": [parameter]}
    with pytest.raises(RequestError, match=f"its parameter '{parameter}'|of its parameter '{parameter}'"):
        holding(style).held(tools=ToolUse(tools=(function("note", needed),), must=True))
    if "enum" in schema or "const" in schema:
        return
    use = ToolUse(tools=(function("note", {**needed, "required": []}),), must=True, parallel=False)
    (call,) = drawn(holding(style), style, use, seed=1).calls
    assert call.arguments == "{}"


def test_a_form_without_a_grammar_is_refused_and_those_with_one_are_named(tmp_path) -> None:
    """The client, or whoever chose the model, learns what would do."""
    of = Holding(marked_model(tmp_path, (), parser="kimi_k3"))
    with pytest.raises(RequestError, match="kimi_k3") as refused:
        of.held(tools=ToolUse(tools=(function("now"),), must=True))
    assert all(name in refused.value.message for name in KNOWN)


def test_plain_names_are_sayable_everywhere() -> None:
    """What random tools are made of is no keyword and has no mark in it."""
    assert all(name.isidentifier() for name in PLAIN_NAMES)
