"""The contract with mlx-lm's tool parsers: each model's way of calling comes out as a name and JSON text."""

import json
import pkgutil

import mlx_lm.tool_parsers
import pytest
from mlx_lm.generate import make_text_state_machine

from app.chat import Piece, PieceKind, ToolCall, ToolUse
from app.engine.text import ReplyText
from app.engine.tool_calls import CallReader, ToolFormat, read_calls, tool_format
from tests.support.tool_formats import ARGUMENTS, FORMATS, TOOL, TWO_CALLS, tokenizer_with

USE = ToolUse(tools=(TOOL,))
CALL = ToolCall(0, "weather", json.dumps(ARGUMENTS, ensure_ascii=False))


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    """A byte-level tokenizer of mlx-lm's with the parser of that name."""
    return lambda name: tokenizer_with(tmp_path_factory.mktemp("tokenizers"), name)


def said_by(tokenizer, text, *, use=USE, cut=False):
    """What becomes of a reply's text, fed as the tokens of the model."""
    reply = ReplyText(
        tokenizer.detokenizer,
        make_text_state_machine(tokenizer),
        end_tokens=tokenizer.eos_token_ids,
        stop=(),
        starts_reasoning=False,
        calls=CallReader(tool_format(tokenizer), use),
    )
    parts = [part for token in tokenizer.encode(text, add_special_tokens=False) for part in reply.feed(token)]
    return [*parts, *reply.finish(cut=cut)]


def test_every_parser_of_mlx_lm_has_its_example():
    """A parser that a new version brings is a decision, not a surprise."""
    assert set(FORMATS) == {module.name for module in pkgutil.iter_modules(mlx_lm.tool_parsers.__path__)}


@pytest.mark.parametrize("name", FORMATS)
def test_a_call_in_each_format_is_read(tokenizer, name):
    """The same call, however a model writes it: text strings, numbers, lists and letters of any language."""
    parts = said_by(tokenizer(name), f"Let me look.\n{FORMATS[name]}")

    calls = [part for part in parts if isinstance(part, ToolCall)]
    assert [(call.name, json.loads(call.arguments)) for call in calls] == [("weather", ARGUMENTS)]
    assert "".join(part.text for part in parts if isinstance(part, Piece)) == "Let me look."


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_without_tools_in_the_request_is_text(tokenizer, name):
    """Marks and all."""
    parts = said_by(tokenizer(name), FORMATS[name], use=None)

    assert "".join(part.text for part in parts) == FORMATS[name]


@pytest.mark.parametrize("name", TWO_CALLS)
def test_parallel_calls_keep_their_order(tokenizer, name):
    """Whether they stand in one part of the reply or in several."""
    calls = said_by(tokenizer(name), TWO_CALLS[name])

    assert [(call.index, json.loads(call.arguments)["town"]) for call in calls] == [(0, "Bern"), (1, "Chur")]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("keep", [0.3, 0.6, 0.9])
def test_a_call_that_was_cut_is_text(tokenizer, name, keep):
    """No format makes half a call of what the limit left, and nothing of it is lost."""
    example = FORMATS[name]
    text = example[: max(int(len(example) * keep), len(tokenizer(name).tool_call_start))]
    parts = said_by(tokenizer(name), text, cut=True)

    assert not [part for part in parts if isinstance(part, ToolCall)]
    assert "".join(part.text for part in parts) == text


def test_an_id_of_the_models_own_is_kept(tokenizer):
    """Templates that print ids have seen no others."""
    (call,) = said_by(tokenizer("kimi_k2"), FORMATS["kimi_k2"])

    assert call.id == "functions.weather:0"


def test_a_tokenizer_without_a_format_has_none(tiny):
    """Then nothing is looked for, and all is text."""
    assert tool_format(tiny("llama").tokenizer) is None
    assert CallReader(None, USE).take("normal", "Hi ") == [Piece(PieceKind.CONTENT, "Hi ")]


def explode(_text, _tools):
    raise RecursionError("[" * 10)


@pytest.mark.parametrize(
    "parse",
    [
        explode,
        lambda _text, _tools: None,
        lambda _text, _tools: "weather",
        lambda _text, _tools: {"arguments": {}},
        lambda _text, _tools: {"name": "", "arguments": {}},
        lambda _text, _tools: {"name": ["weather"]},
        lambda _text, _tools: {"name": "weather", "arguments": ["Bern"]},
        lambda _text, _tools: {"name": "weather", "arguments": "no JSON"},
        lambda _text, _tools: {"name": "weather", "arguments": {"town": {"Bern"}}},
        lambda _text, _tools: {"name": "weather", "arguments": {"town": float("nan")}},
        lambda _text, _tools: {"name": "weather", "arguments": {"town": "\ud800"}},
        lambda _text, _tools: [{"name": "weather"}, {"name": None}],
    ],
)
def test_what_a_parser_makes_that_is_no_call_is_none(parse, caplog):
    """Anything may come out of a parser, or nothing; the log names the kind of trouble and no word of it."""
    assert read_calls(ToolFormat("<", ">", parse), "a secret", USE) == []
    assert "could not be read" in caplog.text
    assert "secret" not in caplog.text
    assert "[[[" not in caplog.text


def test_arguments_may_come_as_text_or_not_at_all():
    """Both are one JSON object in the end."""

    def calls(parsed):
        return read_calls(ToolFormat("<", ">", lambda _text, _tools: parsed), "", USE, index=3)

    assert calls({"name": "now"}) == [ToolCall(3, "now", "{}")]
    assert calls({"name": "now", "arguments": None}) == [ToolCall(3, "now", "{}")]
    assert calls({"name": "now", "arguments": '{"a":"é"}'}) == [ToolCall(3, "now", '{"a": "é"}')]


@pytest.mark.parametrize("name", TWO_CALLS)
def test_of_calls_at_once_only_the_first_is_given_where_one_is_allowed(tokenizer, name):
    """Also where both stand in one part of the reply."""
    calls = said_by(tokenizer(name), TWO_CALLS[name], use=ToolUse(tools=USE.tools, parallel=False))

    assert [json.loads(call.arguments)["town"] for call in calls] == ["Bern"]
