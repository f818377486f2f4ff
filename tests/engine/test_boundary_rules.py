"""Where history ends, in every style of template and for every last role; what has no such place says why."""

import itertools

import pytest

from app.chat import ChatPrompt
from app.engine.chat_model import ServedChatModel
from app.errors import RequestError
from app.loading import CAPTURE_DECLINES
from tests.support.templates import REPLYING, REWRITTEN
from tests.support.tiny import CHATML

SYSTEM = {"role": "system", "content": "Be brief."}
USER = {"role": "user", "content": "What is the weather?"}
CALL = {
    "role": "assistant",
    "content": "",
    "reasoning_content": "I should look.",
    "tool_calls": [{"type": "function", "id": "1", "function": {"name": "w", "arguments": '{"c": "Bern"}'}}],
}
RESULT = {"role": "tool", "tool_call_id": "1", "content": "sunny"}
ANSWER = {"role": "assistant", "content": "Sunny, says the report."}
AGAIN = {"role": "user", "content": "And tomorrow?"}
TOOL = {"type": "function", "function": {"name": "w", "parameters": {}}}

CONVERSATION = (SYSTEM, USER, CALL, RESULT, ANSWER, AGAIN)
BEGIN_ALIKE = sorted(REPLYING.keys() - {"thinking_dropped", "thinking_calls"})
"""Styles in which the generation prompt is what every reply in history begins with, thinking switched off."""

NOT_ASSISTANT = [n for n in range(2, 7) if CONVERSATION[n - 1]["role"] != "assistant"]


@pytest.fixture
def declined():
    return []


@pytest.fixture
def model(tiny, declined):
    """The tokenizer is shared by all tests of the session, so its template is put back."""
    yield ServedChatModel(tiny("lfm2"), unix_seconds=lambda: 0.0, on_declined=declined.append)
    tiny("lfm2").tokenizer.chat_template = CHATML


def prepare(model, *messages):
    chat = ChatPrompt(messages=messages, tools=(TOOL,), template_kwargs={})
    return model.prepare(chat, session="s", tenant="")


def halves(model, prompt):
    """The prompt's text before the boundary, and after it."""
    (boundary,) = prompt.boundaries
    decode = model._tokenizer.decode
    return decode(prompt.tokens[: boundary.length]), decode(prompt.tokens[boundary.length :])


@pytest.mark.parametrize("length", NOT_ASSISTANT)
@pytest.mark.parametrize("style", BEGIN_ALIKE)
def test_where_replies_begin_as_history_shows_them_all_but_the_last_token_is_kept(model, style, length):
    """Users, tools: the next turn repeats the generation prompt too, so the prefill is not cut before it."""
    model._tokenizer.chat_template = REPLYING[style]

    history, rest = halves(model, prepare(model, *CONVERSATION[:length]))

    assert CONVERSATION[length - 1]["content"] in history
    assert history.endswith("<|im_end|>\n<|im_start|>assistant")
    assert rest == "\n"


@pytest.mark.parametrize("length", NOT_ASSISTANT)
def test_a_generation_prompt_that_history_does_not_show_stays_out(model, length):
    """The boundary takes in the whole last message and nothing of what follows it."""
    model._tokenizer.chat_template = REPLYING["thinking_dropped"]

    history, rest = halves(model, prepare(model, *CONVERSATION[:length]))

    assert CONVERSATION[length - 1]["content"] in history
    assert history.endswith("<|im_end|>\n")
    assert rest.startswith("<|im_start|>assistant\n<think>")


@pytest.mark.parametrize("style", REPLYING)
def test_in_a_tool_loop_each_prompt_begins_with_the_boundary_before_it(model, style):
    """After a tool's result the next step repeats the history up to the last boundary, token by token."""
    model._tokenizer.chat_template = REPLYING[style]
    steps = [prepare(model, USER, *([CALL, RESULT] * n)) for n in range(4)]

    for earlier, later in itertools.pairwise(steps):
        length = earlier.boundaries[0].length
        assert later.tokens[:length] == earlier.tokens[:length]


def test_an_empty_think_block_of_the_generation_prompt_is_no_history(model):
    """With thinking off the scaffold follows the boundary, so the next turn, which drops it, still hits."""
    model._tokenizer.chat_template = REPLYING["thinking_dropped"]
    first = prepare(model, USER)
    second = prepare(model, USER, ANSWER, AGAIN)

    _, rest = halves(model, first)
    length = first.boundaries[0].length
    assert rest == "<|im_start|>assistant\n<think>\n\n</think>\n\n"
    assert second.tokens[:length] == first.tokens[:length]
    assert second.tokens[: len(first.tokens)] != first.tokens


@pytest.mark.parametrize("style", REPLYING)
def test_a_reply_that_is_to_be_continued_stays_open(model, style):
    """With an assistant's message last, the model goes on with it; the boundary lies before that message."""
    model._tokenizer.chat_template = REPLYING[style]
    opening = {"role": "assistant", "content": "Sunny, and"}

    history, rest = halves(model, prepare(model, SYSTEM, USER, opening))

    assert history.endswith(f"{USER['content']}<|im_end|>\n")
    assert rest.startswith("<|im_start|>assistant\n")
    assert rest.endswith("Sunny, and")
    assert rest.count("<|im_start|>") == 1


def test_a_continued_reply_and_its_next_turn_share_the_boundary(model):
    """However the client joins the beginning and the rest of the reply, the boundary serves."""
    opened = prepare(model, USER, {"role": "assistant", "content": "Sunny, and"})
    joined = prepare(model, USER, {"role": "assistant", "content": "Sunny, and warm."}, AGAIN)
    apart = prepare(model, USER, {"role": "assistant", "content": " warm."}, AGAIN)

    length = opened.boundaries[0].length
    assert joined.tokens[:length] == apart.tokens[:length] == opened.tokens[:length]


def test_a_call_without_its_result_is_not_continued(model):
    """The model is asked for a reply after the call, not for more of it."""
    text = "".join(halves(model, prepare(model, USER, CALL)))

    assert text.endswith("<|im_end|>\n<|im_start|>assistant\n")


def test_a_message_that_the_template_cuts_cannot_be_continued(model):
    """Where the last message does not come out whole, the client is told, in one line."""
    model._tokenizer.chat_template = "{% for m in messages %}{{ m.content[:3] }}{% endfor %}"
    with pytest.raises(RequestError, match="does not appear in the chat") as refusal:
        prepare(model, USER, ANSWER)

    assert "\n" not in refusal.value.message


def test_a_template_without_a_generation_prompt_leaves_one_token_to_run(model, declined):
    """All of such a prompt is history, and a state of the whole of it could not be used."""
    model._tokenizer.chat_template = "{% for m in messages %}[{{ m.content }}]{% endfor %}"

    prompt = prepare(model, USER)

    assert [each.length for each in prompt.boundaries] == [len(prompt.tokens) - 1]
    assert declined == []


@pytest.mark.parametrize(
    "first_line",
    [
        "{{ 'Reply:' if add_generation_prompt }}",
        "{% if not add_generation_prompt %}{{ raise_exception('no') }}{% endif %}",
    ],
    ids=["asks for a reply", "refuses history"],
)
def test_what_only_prompts_show_is_kept_where_every_prompt_shows_it(model, declined, first_line):
    """The next prompt asks for a reply as well: how the history alone would look does not matter."""
    model._tokenizer.chat_template = first_line + CHATML

    first = prepare(model, USER)
    second = prepare(model, USER, ANSWER, AGAIN)

    assert first.boundaries[0].length == len(first.tokens) - 1
    assert second.tokens[: len(first.tokens)] == first.tokens
    assert declined == []


@pytest.mark.parametrize(
    ("template", "messages", "reason"),
    [
        (REWRITTEN, (USER,), "history_not_a_prefix"),
        (
            "{{ messages | length if add_generation_prompt else raise_exception('only replies') }}",
            (USER,),
            "history_not_rendered",
        ),
        ("{% if add_generation_prompt %}{{ messages | length }}{% endif %}", (USER,), "empty_history"),
        (CHATML, (ANSWER,), "empty_history"),
    ],
    ids=["first line differs", "refuses history", "shows no history", "nothing before the open reply"],
)
def test_a_prompt_without_usable_history_is_declined_for_a_reason(
    model, declined, template, messages, reason
):
    """The request is served, there is no boundary, and the reason is one of the closed set."""
    model._tokenizer.chat_template = template

    prompt = prepare(model, *messages)

    assert prompt.tokens
    assert prompt.boundaries == ()
    assert declined == [reason]
    assert reason in CAPTURE_DECLINES
