"""Laws of the way from a request's fields to a prompt, a sampling and a session."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.asked import Asked
from app.api.openai import translate
from app.api.openai.schema import ChatRequest
from app.api.ports import ChatPrompt, ReplySchema, ToolUse
from app.errors import RequestError
from app.scheduler.job import Sampling
from app.snapshots.entry import ANONYMOUS_SESSION
from tests.support.scripted_engine import CharacterModel

VOCABULARY = 1000
USER: dict[str, Any] = {"role": "user", "content": "Hello"}


def request(*messages: dict[str, Any], **fields: Any) -> ChatRequest:
    """A request as it comes out of the decoder."""
    body = {"messages": list(messages) or [USER], **fields}
    return msgspec.json.decode(msgspec.json.encode(body), type=ChatRequest)


def rendered(*messages: dict[str, Any]) -> list[dict[str, Any]]:
    """The messages a template would get."""
    return [dict(message) for message in translate.chat_prompt(request(*messages)).messages]


def test_text_parts_are_joined_line_by_line() -> None:
    """A list of text parts is the same message as their text in lines."""
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]

    assert rendered({"role": "user", "content": parts}) == [{"role": "user", "content": "one\ntwo"}]


def test_developer_speaks_as_system() -> None:
    """Chat templates know no developer role."""
    assert rendered({"role": "developer", "content": "Be brief."}, USER)[0]["role"] == "system"


def test_tool_round_trip_keeps_calls_and_answers() -> None:
    """What the assistant called and what the tool said reach the template; absent content is empty text."""
    call = {"id": "c1", "type": "function", "function": {"name": "now", "arguments": "{}"}}

    messages = rendered(
        USER,
        {"role": "assistant", "content": None, "tool_calls": [call], "reasoning_content": "hm"},
        {"role": "tool", "tool_call_id": "c1", "name": "now", "content": "noon"},
    )

    assert messages[1:] == [
        {"role": "assistant", "content": "", "tool_calls": [call], "reasoning_content": "hm"},
        {"role": "tool", "content": "noon", "name": "now", "tool_call_id": "c1"},
    ]


def test_calls_reach_the_template_in_one_form() -> None:
    """However a client orders their fields; arguments may be an object, and what is unknown is left out."""
    told = {"function": {"arguments": {"at": 1}, "name": "now", "new": 1}, "index": 0}

    (message,) = rendered({"role": "assistant", "tool_calls": [told]})

    (call,) = message["tool_calls"]
    assert list(call.items()) == [
        ("type", "function"),
        ("function", {"name": "now", "arguments": '{"at": 1}'}),
    ]
    assert list(call["function"]) == ["name", "arguments"]


TOOL = {"type": "function", "function": {"name": "now", "parameters": {"type": "object"}}}


@pytest.mark.parametrize("choice", [None, "auto", "none"])
def test_tools_reach_the_template_whatever_the_choice(choice: str | None) -> None:
    """Left out, they would change the prompt from its beginning on, and no state of it could be used."""
    assert translate.chat_prompt(request(tools=[TOOL], tool_choice=choice)).tools == (TOOL,)
    assert translate.chat_prompt(request(tools=[], tool_choice=choice)).tools is None


def asked(**fields: Any) -> Asked:
    return translate.asked(request(**fields), {}, CharacterModel())


def test_calls_are_looked_for_where_they_may_come() -> None:
    """With tools, unless none is to be called; one only where the client wants no more at once."""
    assert asked(tools=[TOOL]).tools == ToolUse(tools=(TOOL,), parallel=True)
    assert asked(tools=[TOOL], parallel_tool_calls=False).tools == ToolUse(tools=(TOOL,), parallel=False)
    assert asked(tools=[TOOL], tool_choice="none").tools is None
    assert asked().tools is None


def test_a_call_that_must_not_come_is_kept_from_the_model() -> None:
    """With `tool_choice: none` the token that calls begin with is never drawn, whatever the biases."""

    def biases(**fields: Any) -> tuple[tuple[int, float], ...]:
        wanted = request(tools=[TOOL], logit_bias={"7": 5, "9": 1}, **fields)
        return translate.sampling(wanted, vocabulary_size=VOCABULARY, call_token=7).logit_bias

    assert biases(tool_choice="none") == ((7, -100.0), (9, 1))
    assert biases(tool_choice="auto") == ((7, 5), (9, 1))
    without = request(tool_choice="none")
    assert translate.sampling(without, vocabulary_size=VOCABULARY, call_token=7).logit_bias == ()


@pytest.mark.parametrize(
    ("fields", "param", "says"),
    [
        ({"tool_choice": "required"}, "tool_choice", "no tools"),
        ({"tool_choice": "any"}, "tool_choice", "'required'"),
        ({"tool_choice": {"type": "function"}}, "tool_choice", "'required'"),
        ({"tool_choice": {"type": "allowed_tools"}}, "tool_choice", "'required'"),
        ({"response_format": {"type": "json_schema"}}, "response_format", "needs a schema"),
        ({"response_format": {"type": "grammar"}}, "response_format", "'grammar'"),
        ({"chat_template_kwargs": {"tokenize": True}}, "chat_template_kwargs", "tokenize"),
        ({"chat_template_kwargs": {"chat_template": "{{ 1 }}"}}, "chat_template_kwargs", "chat_template"),
    ],
)
def test_what_is_not_served_is_refused_by_name(fields: dict[str, Any], param: str, says: str) -> None:
    """A field that could not be honoured is a 400 naming it, never ignored."""
    with pytest.raises(RequestError, match=says) as refusal:
        asked(**fields)

    assert refusal.value.status == 400
    assert refusal.value.param == param


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("response_format", "schema"),
    [
        (None, None),
        ({"type": "text"}, None),
        ({"type": "json_object"}, {"type": "object"}),
        ({"type": "json_schema", "json_schema": {"name": "it", "schema": SCHEMA, "strict": True}}, SCHEMA),
        ({"type": "json_schema", "json_schema": {"name": "it", "schema": SCHEMA}}, SCHEMA),
    ],
)
def test_a_format_is_the_schema_of_the_reply(response_format: Any, schema: Any) -> None:
    """Any object, or what the client's schema says, strict or not; with the field that asked for it."""
    expected = None if schema is None else ReplySchema(schema, "response_format")
    assert asked(response_format=response_format).schema == expected


@pytest.mark.parametrize(
    ("choice", "must", "names", "parallel"),
    [
        ("auto", False, ("now", "later"), True),
        ("required", True, ("now", "later"), True),
        ({"type": "function", "function": {"name": "later"}}, True, ("later",), False),
        ({"type": "function", "name": "later"}, True, ("later",), False),
    ],
)
def test_a_forced_call_is_of_what_may_be_called(choice: Any, must: bool, names: Any, parallel: bool) -> None:
    """All tools stay in the prompt; one that is named is called alone, and once."""
    tools = [{"type": "function", "function": {"name": name}} for name in ("now", "later")]
    wanted = asked(tools=tools, tool_choice=choice)
    assert wanted.tools is not None
    assert wanted.tools.must is must
    assert tuple(tool["function"]["name"] for tool in wanted.tools.tools) == names
    assert wanted.tools.parallel is parallel
    assert isinstance(wanted.prompt, ChatPrompt)
    assert wanted.prompt.tools == tuple(tools)


def test_a_forced_call_of_a_tool_that_is_not_there_is_refused() -> None:
    """The refusal names the tool."""
    choice = {"type": "function", "function": {"name": "never"}}
    with pytest.raises(RequestError, match="'never'"):
        asked(tools=[TOOL], tool_choice=choice)


@pytest.mark.parametrize("part", [{"type": "image_url", "image_url": {"url": "x"}}, {"type": "text"}])
def test_content_that_is_not_text_is_refused_where_it_is(part: dict[str, Any]) -> None:
    """The refusal of a content part says which message and which part."""
    content = [{"type": "text", "text": "look"}, part]

    with pytest.raises(RequestError) as refusal:
        translate.chat_prompt(request(USER, {"role": "user", "content": content}))

    assert refusal.value.param == "messages[1].content[1]"
    assert part["type"] in refusal.value.message


def test_sampling_defaults_are_openais() -> None:
    """A request that says nothing is sampled at temperature 1 from all tokens, without penalties."""
    assert translate.sampling(request(), vocabulary_size=VOCABULARY) == Sampling(temperature=1.0)


def test_sampling_takes_every_field() -> None:
    """Each field of the request arrives in the sampling, zero included."""
    sampling = translate.sampling(
        request(
            temperature=0,
            top_p=0.5,
            top_k=7,
            min_p=0.1,
            seed=-3,
            presence_penalty=1,
            frequency_penalty=-1,
            repetition_penalty=1.5,
            logit_bias={"20": -100, "3": 5},
            logprobs=True,
            top_logprobs=4,
        ),
        vocabulary_size=VOCABULARY,
    )

    assert sampling == Sampling(
        temperature=0,
        top_p=0.5,
        top_k=7,
        min_p=0.1,
        seed=-3,
        presence_penalty=1,
        frequency_penalty=-1,
        repetition_penalty=1.5,
        logit_bias=((3, 5), (20, -100)),
        top_logprobs=4,
    )


def test_logprobs_alone_asks_for_the_chosen_token() -> None:
    """`logprobs` without `top_logprobs` is the chosen token only; absent or false is none at all."""
    assert translate.sampling(request(logprobs=True), vocabulary_size=VOCABULARY).top_logprobs == 0
    assert translate.sampling(request(logprobs=False), vocabulary_size=VOCABULARY).top_logprobs is None


def test_top_logprobs_need_logprobs() -> None:
    """Asking for alternatives without log-probabilities is a contradiction, and refused."""
    with pytest.raises(RequestError) as refusal:
        translate.sampling(request(top_logprobs=2), vocabulary_size=VOCABULARY)
    assert refusal.value.param == "top_logprobs"


@pytest.mark.parametrize("key", ["1000", "-1", "x", "", "1.5", "٣", "9" * 5000])
def test_bias_of_something_that_is_no_token_is_refused(key: str) -> None:
    """Only ids of the vocabulary can be biased; an id beyond it would write outside the logits."""
    with pytest.raises(RequestError, match="0 to 999") as refusal:
        translate.sampling(request(logit_bias={key: 1}), vocabulary_size=VOCABULARY)
    assert refusal.value.param == "logit_bias"


@given(wanted=st.none() | st.integers(1, 300), older=st.none() | st.integers(1, 300))
def test_the_newer_name_of_the_limit_wins(wanted: int | None, older: int | None) -> None:
    """And without either, the limit is the server's to set."""
    limit = asked(max_completion_tokens=wanted, max_tokens=older).max_tokens

    assert limit == next((each for each in (wanted, older) if each is not None), None)


def test_a_request_in_the_programs_own_terms() -> None:
    """How many replies, in which form, from which state, and for which conversation."""
    plain = asked()
    assert (plain.replies, plain.stream, plain.use_snapshots, plain.stop) == (1, False, True, ())
    assert plain.session == ANONYMOUS_SESSION
    other = asked(n=3, stream=True, cache_prompt=False, stop="a", user="u", prompt_cache_key="k")
    assert (other.replies, other.stream, other.use_snapshots, other.stop) == (3, True, False, ("a",))
    assert other.session == "k"
    assert asked(user="u").session == "u"
