"""Replies that have to call a tool: what a random model writes is always a call in its family's own form."""

import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest

from app.chat import ToolUse
from app.errors import RequestError
from app.scheduler.job import Sampling
from app.vocabulary import FinishReason
from tests.engine.conftest import new_decoder
from tests.support.decoding import run, run_all
from tests.support.held import FIELD, Holding, Said, holding_of
from tests.support.jobs import make_job
from tests.support.marked import marked_model
from tests.support.tool_formats import FORMATS, TWO_CALLS
from tests.support.tool_formats import TOOL as SAMPLE_TOOL

JSON_MARKS = ("<tool_call>", "</tool_call>")
KIMI_MARKS = (
    "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>",
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
)
STYLES = {
    "json": ("json_tools", JSON_MARKS),
    "json, marks spelled": ("json_tools", ()),
    "mistral": ("mistral", ("[TOOL_CALLS]", "[ARGS]")),
    "mistral, lists": ("mistral", ("[TOOL_CALLS]",)),
    "kimi": ("kimi_k2", KIMI_MARKS),
    "tags": ("qwen3_coder", JSON_MARKS),
}
_LISTED = ("[TOOL_CALLS] [", '{"name": "weather", "arguments": {"town": "Bern"}}', "]")
_KIMI_CALL = (
    '<|tool_call_begin|>functions.weather:{}<|tool_call_argument_begin|>{{"town": "Bern"}}<|tool_call_end|>'
)
TAUGHT = {
    "json": (FORMATS["json_tools"], TWO_CALLS["json_tools"]),
    "json, marks spelled": (FORMATS["json_tools"], TWO_CALLS["json_tools"]),
    "mistral": (FORMATS["mistral"], TWO_CALLS["mistral"]),
    "mistral, lists": ("".join(_LISTED), f"{_LISTED[0]}{_LISTED[1]}, {_LISTED[1]}{_LISTED[2]}"),
    "kimi": (
        FORMATS["kimi_k2"],
        f"{KIMI_MARKS[0]}{_KIMI_CALL.format(0)}{_KIMI_CALL.format(1)}{KIMI_MARKS[1]}",
    ),
    "tags": (FORMATS["qwen3_coder"], TWO_CALLS["qwen3_coder"]),
}
END = 257
WEATHER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "town": {"enum": ["Bern", 'Zü"rich', "<tool_call>"]},
        "days": {"$ref": "#/$defs/days"},
    },
    "required": ["town", "days"],
    "additionalProperties": False,
    "$defs": {
        "days": {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 7}, "maxItems": 2}
    },
}
PARAMETERS = {
    "weather": WEATHER,
    "now": None,
    "to-do_2": {"properties": {"on": {"type": "boolean"}}, "required": ["on"], "additionalProperties": False},
}


def tool(name: str, **more) -> dict[str, Any]:
    """One of the tools, as a request has it."""
    parameters = PARAMETERS[name]
    told = {"name": name, **({} if parameters is None else {"parameters": parameters}), **more}
    return {"type": "function", "function": told}


ALL = tuple(map(tool, PARAMETERS))


@pytest.fixture(scope="module")
def holding(tmp_path_factory) -> Callable[[str], Holding]:
    """A model that writes its calls in that style."""
    return holding_of(tmp_path_factory.mktemp("calling"), STYLES)


def say(
    holding: Holding, tools: ToolUse, *, replies=6, schema=None, biases=(), max_tokens=2000
) -> list[Said]:
    """Replies with these tools, in one batch, of a model with little taste for white space and long lists."""
    _, prompt = holding.prompt()
    tastes = dict.fromkeys(holding.model.tokenise(" \n", special=False), -30.0)
    tastes |= dict.fromkeys(holding.model.tokenise("]", special=False), 4.0)
    bias = tuple(sorted({**tastes, **dict(biases)}.items()))
    held = holding.held(schema=schema, tools=tools)
    jobs = [
        make_job(
            prompt.tokens,
            id=str(seed),
            max_tokens=max_tokens,
            constraint=held,
            sampling=Sampling(temperature=1.0, seed=seed, logit_bias=bias),
        )
        for seed in range(replies)
    ]
    ran = run_all(new_decoder(holding.loaded), [(job, None, []) for job in jobs])
    return [holding.read(ran[job.id].generated, schema=schema, tools=tools) for job in jobs]


def check(said: Said, *, names=frozenset(PARAMETERS)) -> None:
    """Every call is of a tool that is offered, with arguments of its schema."""
    for call in said.calls:
        assert call.name in names
        arguments = json.loads(call.arguments)
        jsonschema.validate(arguments, PARAMETERS[call.name] or {"maxProperties": 0})


@pytest.mark.parametrize("style", STYLES)
def test_a_reply_that_must_call_is_one_call_or_several_and_nothing_else(holding, style):
    """In every form that is known, whichever the model chooses, its own parser reads them all."""
    called = []
    for said in say(holding(style), ToolUse(tools=ALL, must=True)):
        assert (said.content, said.finish) == ("", FinishReason.STOP)
        assert said.calls
        check(said)
        called.append(said.calls)
    assert len({call.name for calls in called for call in calls}) > 1, "it may choose"


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("calls", [1, 2])
def test_what_models_were_taught_to_write_is_within_the_grammar(holding, style, calls):
    """Token by token, as the family's template prints one call and two at once, up to the end of the turn."""
    of = holding(style)
    held = of.held(tools=ToolUse(tools=(SAMPLE_TOOL,), must=True))
    assert held is not None
    walk = held.begin()
    for token in (*of.model.tokenise(TAUGHT[style][calls - 1], special=False), END):
        assert walk.allowed()[token // 8] >> token % 8 & 1, of.model.text_of([token])
        walk.take(token)
    assert walk.failure == ""


@pytest.mark.parametrize("style", STYLES)
def test_without_parallel_calls_it_is_exactly_one(holding, style):
    """The grammar ends with the first call, so that the reply does not go to its limit."""
    for said in say(holding(style), ToolUse(tools=ALL, must=True, parallel=False)):
        assert len(said.calls) == 1
        assert said.content == ""
        check(said)


@pytest.mark.parametrize("style", STYLES)
def test_a_strict_tool_gets_its_schema_only_if_the_model_chooses_to_call(holding, style):
    """Text stays free; a call, wherever it begins, has arguments of its schema."""
    strict = ToolUse(tools=(tool("weather", strict=True), tool("now", strict=True)))
    of = holding(style)
    begins = of.model.call_token
    eager = () if begins is None else ((begins, 5.0),)
    replies = say(of, strict, biases=eager, max_tokens=200)
    for said in replies:
        check(said, names={"weather", "now"})
    assert any(said.content for said in replies)
    if begins is not None:
        assert any(said.calls for said in replies)


def test_a_call_that_was_begun_by_its_text_is_held_as_well(holding):
    """Where the mark is no token, its last character begins the grammar: only a call can follow."""
    of = holding("json, marks spelled")
    begun = ({"role": "user", "content": "Call."}, {"role": "assistant", "content": "So: <tool_call>"})
    use = ToolUse(tools=(tool("weather", strict=True),))
    job = of.job("held", of.held(*begun, tools=use), *begun, max_tokens=3000)

    said = of.read(run(new_decoder(of.loaded), job).generated, *begun, tools=None)

    body, end, _ = said.content.partition("</tool_call>")
    assert end
    assert json.loads(body)["name"] == "weather"
    jsonschema.validate(json.loads(body)["arguments"], WEATHER)


@pytest.mark.parametrize("style", STYLES)
def test_a_format_and_tools_together_leave_the_choice(holding, style):
    """The reply is JSON of the schema, or calls; never text of another kind."""
    schema = {
        "type": "object",
        "properties": {"n": {"enum": [1, 2]}},
        "required": ["n"],
        "additionalProperties": False,
    }
    of = holding(style)
    tools = tuple(tool(name, strict=True) for name in PARAMETERS)
    for said in say(of, ToolUse(tools=tools), schema=schema):
        assert said.finish is FinishReason.STOP
        assert bool(said.calls) != bool(said.content)
        if said.content:
            jsonschema.validate(json.loads(said.content), schema)
        check(said)


def test_tools_alone_hold_a_reply_to_nothing(holding):
    """Without `strict` and without a demand to call, the reply costs no grammar."""
    assert holding("json").held(tools=ToolUse(tools=ALL)) is None


def test_a_way_of_calling_without_a_grammar_is_refused_where_one_is_needed(tmp_path):
    """A forced call and a format beside tools are refused by what asked for them; `strict` stays a wish."""
    of = Holding(marked_model(tmp_path, (), parser="kimi_k3"))
    with pytest.raises(RequestError, match="kimi_k3") as refused:
        of.held(tools=ToolUse(tools=ALL, must=True))
    assert (refused.value.status, refused.value.param) == (400, "tool_choice")
    with pytest.raises(RequestError, match="kimi_k3") as refused:
        of.held(schema={"type": "object"}, tools=ToolUse(tools=ALL))
    assert (refused.value.status, refused.value.param) == (400, FIELD)
    assert of.held(tools=ToolUse(tools=(tool("weather", strict=True),))) is None


def test_a_model_that_knows_no_calls_cannot_be_made_to(tiny):
    """Its way of calling is unknown, and the refusal says so."""
    with pytest.raises(RequestError, match="unknown"):
        Holding(tiny("llama")).held(tools=ToolUse(tools=ALL, must=True))


@pytest.mark.parametrize(
    ("parameters", "because"),
    [
        ({"type": "object", "properties": {"a": {"not": {}}}}, '"not"'),
        ({"type": "array"}, "'object'"),
    ],
)
def test_a_tools_schema_that_cannot_be_followed_is_refused_by_the_tools_name(holding, parameters, because):
    """The refusal says which of the tools it is."""
    bad = {"type": "function", "function": {"name": "bad", "parameters": parameters}}
    with pytest.raises(RequestError) as refused:
        holding("json").held(tools=ToolUse(tools=(tool("now"), bad), must=True))
    assert refused.value.param == "tools"
    assert "'bad'" in refused.value.message
    assert because in refused.value.message


TAGGED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "level": {"type": "integer", "minimum": -5, "maximum": 5},
        "on": {"type": "boolean"},
        "mode": {"$ref": "#/$defs/mode"},
        "sort": {"const": "up"},
        "where": {"type": "object", "properties": {"x": {"type": "null"}}, "additionalProperties": False},
        "days": {"$ref": "#/$defs/days"},
    },
    "required": ["level", "mode", "sort"],
    "additionalProperties": False,
    "$defs": {
        "days": WEATHER["$defs"]["days"],
        "mode": {"type": "string", "enum": ["fast", "slow and sure"]},
    },
}


def test_a_call_in_tags_gives_each_parameter_its_type(holding):
    """Numbers, truth values, choices and JSON come out of the parser as the schema has them."""
    offered = {"type": "function", "function": {"name": "set", "parameters": TAGGED}}
    seen: set[str] = set()
    for said in say(holding("tags"), ToolUse(tools=(offered,), must=True, parallel=False), replies=8):
        (call,) = said.calls
        arguments = json.loads(call.arguments)
        jsonschema.validate(arguments, TAGGED)
        seen |= arguments.keys()
    assert seen == TAGGED["properties"].keys(), "what is not required comes now and then"


def test_a_text_in_tags_is_free_but_for_the_parsers_own_word(holding):
    """Any text up to the mark, and never the word that the parser would take for no value."""
    offered = {
        "type": "function",
        "function": {
            "name": "set",
            "parameters": {"properties": {"note": {"type": "string"}}, "required": ["note"]},
        },
    }
    of = holding("tags")
    held = of.held(tools=ToolUse(tools=(offered,), must=True))
    assert held is not None
    before = "<tool_call>\n<function=set>\n<parameter=note>\n"
    for note, fits in (("a </b> c\nd", True), ("nullify", True), ("Null", False)):
        walk = held.begin()
        whole = f"{before}{note}\n</parameter>\n</function>\n</tool_call>"
        for token in of.model.tokenise(whole, special=False):
            if not walk.allowed()[token // 8] >> token % 8 & 1:
                break
            walk.take(token)
        else:
            assert fits, note
            continue
        assert not fits, note
