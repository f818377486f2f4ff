"""From messages to tokens: the boundary is where the history ends, for every last role."""

from dataclasses import replace

import pytest

from app.chat import ChatPrompt
from app.engine.chat_model import ServedChatModel
from app.errors import RequestError
from app.snapshots.entry import pack
from app.vocabulary import Origin
from tests.support.families import CONTEXT_LENGTH
from tests.support.tiny import CHATML

USER = {"role": "user", "content": "What is the weather?"}
CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"type": "function", "id": "1", "function": {"name": "w", "arguments": '{"c": "Bern"}'}}],
}
TOOL = {"role": "tool", "tool_call_id": "1", "content": "sunny"}
ANSWER = {"role": "assistant", "content": "Sunny."}


def chat(*messages, tools=None, **template_kwargs):
    return ChatPrompt(messages=messages, tools=tools, template_kwargs=template_kwargs)


@pytest.fixture
def declined():
    return []


@pytest.fixture
def model(tiny, declined):
    """The tokenizer is shared by all tests of the session, so its template is put back."""
    yield ServedChatModel(tiny("llama"), unix_seconds=lambda: 123.0, on_declined=declined.append)
    tiny("llama").tokenizer.chat_template = CHATML


def prepare(model, prompt):
    return model.prepare(prompt, session="s", tenant="")


def text_of(model, tokens):
    return model._tokenizer.decode(tokens)


@pytest.mark.parametrize(
    "messages",
    [
        (USER,),
        ({"role": "system", "content": "Be brief."}, USER),
        (USER, CALL, TOOL),
        (USER, CALL),
    ],
    ids=["user", "system+user", "tool", "unanswered call"],
)
def test_the_boundary_is_the_history_whatever_the_last_role(model, messages):
    """Up to the last token: replies in history begin as this prompt ends, so the next turn repeats it all."""
    prompt = prepare(model, chat(*messages))

    (boundary,) = prompt.boundaries
    assert boundary.origin is Origin.BOUNDARY
    assert boundary.length == len(prompt.tokens) - 1
    assert text_of(model, prompt.tokens).endswith("<|im_end|>\n<|im_start|>assistant\n")


def test_the_next_turns_prompt_begins_with_the_boundarys_tokens(model):
    """The boundary's key is a prefix of the next prompt, so the next turn hits."""
    first = prepare(model, chat(USER))
    second = prepare(model, chat(USER, ANSWER, {"role": "user", "content": "And tomorrow?"}))

    length = first.boundaries[0].length
    assert second.tokens[:length] == first.tokens[:length]
    assert first.packed == pack(first.tokens)


def test_a_template_that_rewrites_history_gets_no_boundary_and_says_why(model, declined):
    """Where the history is no prefix of the prompt, a snapshot of it could never hit."""
    model._tokenizer.chat_template = (
        "{{ messages | length if add_generation_prompt else 'B' }}"
        "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    )
    prompt = prepare(model, chat(USER))

    assert prompt.boundaries == ()
    assert declined == ["history_not_a_prefix"]


def test_tools_and_template_settings_and_tenants_are_different_buckets(model):
    """What changes how a conversation is rendered or who may see it keeps states apart."""
    tool = {"type": "function", "function": {"name": "w", "parameters": {}}}
    plain = prepare(model, chat(USER)).bucket
    others = [
        prepare(model, chat(USER, tools=(tool,))).bucket,
        prepare(model, chat(USER, enable_thinking=False)).bucket,
        model.prepare(chat(USER), session="s", tenant="other").bucket,
    ]

    assert prepare(model, chat({"role": "user", "content": "Other text"})).bucket == plain
    assert len({plain, *others}) == 4


def test_the_servers_template_settings_hold_where_a_request_sets_none(tiny):
    """A request's own win, each by itself; states are kept by what is rendered, wherever it comes from."""
    loaded = replace(tiny("llama"), template_kwargs={"mood": "calm", "tone": "dry"})
    loaded.tokenizer.chat_template = "{{ mood }} {{ tone }} {{ messages[0]['content'] }}"
    settings = ServedChatModel(loaded, unix_seconds=lambda: 123.0, on_declined=lambda _reason: None)
    bare = ServedChatModel(tiny("llama"), unix_seconds=lambda: 123.0, on_declined=lambda _reason: None)
    try:
        rendered = [settings.render(chat(USER, **own)) for own in ({}, {"tone": "warm"})]
        by_settings = prepare(settings, chat(USER)).bucket
        by_request = prepare(bare, chat(USER, mood="calm", tone="dry")).bucket
    finally:
        loaded.tokenizer.chat_template = CHATML

    assert rendered == [f"calm {tone} {USER['content']}" for tone in ("dry", "warm")]
    assert by_settings == by_request


def test_messages_a_template_cannot_render_are_the_clients_error(model):
    """A template's own complaint reaches the client as a 400."""
    model._tokenizer.chat_template = "{{ raise_exception('roles must alternate') }}"
    with pytest.raises(RequestError, match="roles must alternate") as refusal:
        prepare(model, chat(USER))

    assert refusal.value.status == 400


def test_tool_call_arguments_reach_the_template_as_objects(model):
    """Clients send arguments as JSON text; templates print objects."""
    model._tokenizer.chat_template = (
        "{% for m in messages %}{% for c in m.tool_calls or [] %}"
        "{{ c.function.arguments.c }}{% endfor %}{% endfor %}{{ '!' if add_generation_prompt }}"
    )
    prompt = prepare(model, chat(USER, CALL))

    assert text_of(model, prompt.tokens) == "Bern!"


def test_a_template_that_puts_calls_together_as_text_gets_their_arguments_as_text(model):
    """It cannot print an object; what it cannot print either way is the client's error."""
    model._tokenizer.chat_template = (
        "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}"
        "{{ c.function.name + c.function.arguments }}{% endfor %}{% endfor %}"
        "{{ '!' if add_generation_prompt }}"
    )

    assert text_of(model, prepare(model, chat(USER, CALL)).tokens).endswith('w{"c": "Bern"}!')
    nameless = {**CALL, "tool_calls": [{"function": {"arguments": "{}"}}]}
    with pytest.raises(RequestError, match="name"):
        prepare(model, chat(USER, nameless))


def test_the_model_says_what_clients_need_to_know(model, tiny):
    """Name, creation time, context and vocabulary."""
    assert (model.name, model.created, model.context_length) == ("llama", 123, CONTEXT_LENGTH)
    assert model.vocabulary_size == 258
    assert any(alias.endswith("/llama") for alias in model.aliases)
