"""What the next prompt begins with, foretold from the reply, and found again in every prompt that follows."""

import pytest

from app.chat import ChatPrompt, ToolCall, with_reply
from app.engine.chat_model import ServedChatModel
from app.vocabulary import Warmup
from tests.support.templates import REPLYING, REWRITTEN
from tests.support.tiny import CHATML

SYSTEM = {"role": "system", "content": "Be brief."}
USER = {"role": "user", "content": "What is the weather?"}
REPLY = " Sunny, and warm for the time of year. "
TOOL = {"type": "function", "function": {"name": "w", "parameters": {}}}
FOLLOWING = (
    {"role": "user", "content": "ok"},
    {"role": "user", "content": "okay"},
    {"role": "user", "content": "Thank you."},
    {"role": "user", "content": "\nAnd tomorrow?"},
)
RESULT = {"role": "tool", "tool_call_id": "1", "content": "ok"}


@pytest.fixture
def model(tiny):
    """The tokenizer is shared by all tests of the session, so its template is put back."""
    yield ServedChatModel(tiny("lfm2"), unix_seconds=lambda: 0.0, on_declined=lambda _reason: None)
    tiny("lfm2").tokenizer.chat_template = CHATML


def chat_of(*messages, tools=None, **kwargs):
    return ChatPrompt(messages=messages, tools=tools, template_kwargs=kwargs)


def prepared(model, chat):
    return model.prepare(chat, session="s", tenant="")


def foretold(model, chat, reply=REPLY):
    return model.next_turn(with_reply(chat, reply), prepared(model, chat))


@pytest.mark.parametrize("style", REPLYING)
@pytest.mark.parametrize("thinking", [False, True], ids=["without thinking", "with thinking"])
def test_every_next_prompt_begins_with_what_was_foretold(model, style, thinking):
    """All but the last token, whatever the client says next; and that covers the whole reply."""
    model._tokenizer.chat_template = REPLYING[style]
    chat = chat_of(SYSTEM, USER, enable_thinking=thinking)
    *certain, _ = foretold(model, chat)

    for message in FOLLOWING:
        echo = {"role": "assistant", "content": REPLY}
        following = prepared(model, chat_of(SYSTEM, USER, echo, message, enable_thinking=thinking))
        assert list(following.tokens[: len(certain)]) == certain
    text = model._tokenizer.decode(certain)
    assert REPLY.strip() in text
    assert text.endswith("<|im_end|>\n<|im_start|>user\n")


@pytest.mark.parametrize("style", REPLYING)
def test_with_tools_a_result_may_follow_as_well(model, style):
    """What is certain ends before the role of who speaks next."""
    model._tokenizer.chat_template = REPLYING[style]
    *certain, _ = foretold(model, chat_of(USER, tools=(TOOL,)))

    for message in (*FOLLOWING, RESULT):
        echo = {"role": "assistant", "content": REPLY}
        following = prepared(model, chat_of(USER, echo, message, tools=(TOOL,)))
        assert list(following.tokens[: len(certain)]) == certain
    assert REPLY.strip() in model._tokenizer.decode(certain)


def test_a_continued_reply_is_foretold_joined_to_its_beginning(model):
    """The client sends one message back, of what it gave and what it got."""
    chat = chat_of(USER, {"role": "assistant", "content": "Well:"})
    *certain, _ = foretold(model, chat)

    joined = {"role": "assistant", "content": "Well:" + REPLY}
    following = prepared(model, chat_of(USER, joined, FOLLOWING[0]))
    assert list(following.tokens[: len(certain)]) == certain
    assert "Well:" + REPLY in model._tokenizer.decode(certain)


def test_it_reaches_beyond_the_boundary_it_is_computed_from(model):
    """The state before the reply is a state of the beginning of what is foretold."""
    chat = chat_of(SYSTEM, USER)
    prompt = prepared(model, chat)
    tokens = foretold(model, chat)

    boundary = prompt.boundaries[-1].length
    assert tokens[:boundary] == prompt.tokens[:boundary]
    assert len(tokens) - 1 > boundary + len(REPLY)


REPLY_MARK = "{% if add_generation_prompt %}>{% endif %}"
COUNTS_MESSAGES = "{{ messages | length }}{% for m in messages %}{{ m.content }}|{% endfor %}"
ONE_TURN_ONLY = (
    "{% for m in messages %}{% if loop.index > 2 %}{{ raise_exception('one turn') }}{% endif %}"
    "{{ m.content }}|{% endfor %}"
)
SHOWS_LAST_QUESTION_FIRST = "{{ messages[-1].content }}|{{ messages[0].content }}"
FORGETS_REPLIES = (
    "{{ messages[0].content }}|{% if messages | length > 1 %}{{ messages[-1].content }}{% endif %}"
)


@pytest.mark.parametrize(
    ("template", "outcome"),
    [
        (REWRITTEN, Warmup.NO_BOUNDARY),
        (COUNTS_MESSAGES + REPLY_MARK, Warmup.DIVERGED),
        (ONE_TURN_ONLY + REPLY_MARK, Warmup.NOT_RENDERED),
        (SHOWS_LAST_QUESTION_FIRST + REPLY_MARK, Warmup.DIVERGED),
        (FORGETS_REPLIES + REPLY_MARK, Warmup.COVERED),
    ],
    ids=["no boundary", "counts messages", "one turn only", "last question first", "forgets replies"],
)
def test_a_template_that_leaves_nothing_to_prepare_says_which(model, template, outcome):
    """No state is computed that no prompt could begin with."""
    model._tokenizer.chat_template = template

    assert foretold(model, chat_of(USER)) is outcome


def test_thinking_that_is_sent_back_or_restored_is_foretold_with_the_reply(model):
    """Where the template shows earlier thinking, the next prompt begins with it too."""
    model._tokenizer.chat_template = REPLYING["thinking_kept"]
    asked = chat_of(USER)
    echo = {"role": "assistant", "content": REPLY, "reasoning_content": "It is June."}
    *certain, _ = model.next_turn(chat_of(USER, echo), prepared(model, asked))

    following = prepared(model, chat_of(USER, echo, FOLLOWING[0]))
    assert list(following.tokens[: len(certain)]) == certain
    assert "It is June." in model._tokenizer.decode(certain)


CALLS = (
    ToolCall(0, "w", '{"town": "Bern"}', id="call00001"),
    ToolCall(1, "w", '{"town": "Chur"}', id="call00002"),
)


@pytest.mark.parametrize("style", ["tool_loop", "hermes", "xml_calls", "thinking_calls"])
@pytest.mark.parametrize("calls", [CALLS[:1], CALLS], ids=["one call", "two at once"])
@pytest.mark.parametrize("content", ["", "Let me look."])
def test_after_calls_every_prompt_with_their_results_begins_with_what_was_foretold(
    model, style, calls, content
):
    """Whatever the results are, in the order of the calls or not; and that covers the calls."""
    model._tokenizer.chat_template = REPLYING[style]
    asked = chat_of(SYSTEM, USER, tools=(TOOL,))
    told = with_reply(asked, content, calls)
    *certain, _ = model.next_turn(told, prepared(model, asked))

    for order in (calls, calls[::-1]):
        results = [{"role": "tool", "tool_call_id": call.id, "content": f"{call.id} ok"} for call in order]
        following = prepared(model, chat_of(*told.messages, *results, tools=(TOOL,)))
        assert list(following.tokens[: len(certain)]) == certain
    text = model._tokenizer.decode(certain)
    assert "Chur" in text or len(calls) == 1
    assert text.endswith(("<|im_start|>user\n<tool_response>\n", "<|im_start|>tool\n"))


def test_a_result_that_the_template_names_is_foretold_up_to_its_name(model):
    """Which of the calls is answered first is not known."""
    model._tokenizer.chat_template = (
        "{% for m in messages %}{{ m.role }} {{ m.tool_call_id }}: {{ m.content }}{% endfor %}{{ '>' }}"
    )
    asked = chat_of(USER, tools=(TOOL,))

    *certain, _ = model.next_turn(with_reply(asked, "", CALLS), prepared(model, asked))

    assert model._tokenizer.decode(certain).endswith("tool call0000")


def test_the_thinking_before_a_call_is_foretold_with_it(model):
    """Where a template shows it until the user speaks again, a result is what comes next, and nobody else."""
    model._tokenizer.chat_template = REPLYING["thinking_calls"]
    asked = chat_of(USER, tools=(TOOL,), enable_thinking=True)
    *messages, said = with_reply(asked, "", CALLS[:1]).messages
    said = {**said, "reasoning_content": "Bern it is."}
    *certain, _ = model.next_turn(
        chat_of(*messages, said, tools=(TOOL,), enable_thinking=True), prepared(model, asked)
    )

    assert "Bern it is." in model._tokenizer.decode(certain)
    following = prepared(model, chat_of(*messages, said, RESULT, tools=(TOOL,), enable_thinking=True))
    assert list(following.tokens[: len(certain)]) == certain
