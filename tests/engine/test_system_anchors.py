"""The system part of a prompt: the same tokens for every conversation under it, and no user's word in it."""

from dataclasses import replace

import pytest

from app.chat import ChatPrompt, PreparedPrompt, TokenisedText
from app.engine.chat_model import ServedChatModel
from app.engine.system_anchors import MOST_REMEMBERED, SystemAnchors
from app.scheduler.job import Boundary
from app.snapshots.entry import Bucket, pack, unpack
from app.vocabulary import Origin
from tests.support.templates import REPLYING
from tests.support.tiny import CHATML

SYSTEM = {"role": "system", "content": "You are the keeper of a tea house. Be brief and kind."}
TOOL = {"type": "function", "function": {"name": "brew", "parameters": {}}}
WITH_TOOLS = "{% if tools %}{{ tools | tojson }}{% endif %}" + CHATML
WITH_DEFAULT = (
    "{% if messages[0].role != 'system' %}{{ 'You are a helpful keeper of this tea house.' }}{% endif %}"
) + CHATML
TOOLS_AT_THE_END = (
    "{% for m in messages %}{% if loop.last and tools %}{{ tools | tojson }}{% endif %}"
    "{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
NO_SHORT_TALK = (
    "{% if messages[-1].content | length < 9 %}{{ raise_exception('too short') }}{% endif %}" + CHATML
)


def user(text):
    return {"role": "user", "content": text}


def chat(*messages, tools=None, **template_kwargs):
    return ChatPrompt(messages=messages, tools=tools, template_kwargs=template_kwargs)


@pytest.fixture
def model(tiny):
    """The tokenizer is shared by all tests of the session, so its template is put back."""
    yield ServedChatModel(
        tiny("llama"), unix_seconds=lambda: 0.0, on_declined=lambda _reason: None, anchor_tokens=16
    )
    tiny("llama").tokenizer.chat_template = CHATML


@pytest.fixture
def prepare(model):
    return lambda chat: model.prepare(chat, session="s", tenant="")


def anchor(prompt):
    """The tokens of the system part, or none."""
    lengths = [boundary.length for boundary in prompt.boundaries if boundary.origin is Origin.SYSTEM]
    return prompt.tokens[: lengths[0]] if lengths else ()


def text_of(model, tokens):
    return model._tokenizer.decode(tokens)


def test_the_system_part_ends_before_the_first_word_of_the_user(model, prepare):
    """It holds the system prompt and the header of the first message, and stands before the history's end."""
    prompt = prepare(chat(SYSTEM, user("How are you?")))

    assert text_of(model, anchor(prompt)) == (
        f"<|im_start|>system\n{SYSTEM['content']}<|im_end|>\n<|im_start|>user\n"
    )
    assert [boundary.origin for boundary in prompt.boundaries] == [Origin.SYSTEM, Origin.BOUNDARY]
    assert prompt.boundaries[0].length < prompt.boundaries[1].length


@pytest.mark.parametrize("role", ["system", "developer"])
def test_it_is_the_same_for_all_conversations_at_every_turn(prepare, role):
    """Neither the first message nor how far a conversation has come changes it."""
    system = {**SYSTEM, "role": role}
    prompts = [
        prepare(chat(system, user("Hello there"))),
        prepare(chat(system, user("4"))),
        prepare(chat(system, user("Hi"), {"role": "assistant", "content": "Yes?"}, user("Tea, please."))),
    ]

    assert len({anchor(prompt) for prompt in prompts}) == 1
    assert len(anchor(prompts[0])) > len(system["content"])


def test_tools_are_part_of_it(model, prepare):
    """Tools that the template prints first are in it, and other tools make another one in another bucket."""
    model._tokenizer.chat_template = WITH_TOOLS
    plain = prepare(chat(SYSTEM, user("Hi")))
    tooled = prepare(chat(SYSTEM, user("Hi"), tools=(TOOL,)))
    tools_alone = prepare(chat(user("Hi"), tools=(TOOL,)))

    assert text_of(model, anchor(tooled)).startswith('[{"')
    assert "brew" in text_of(model, anchor(tools_alone))
    assert anchor(plain) != anchor(tooled)
    assert plain.bucket != tooled.bucket


def test_a_default_system_prompt_of_the_template_is_found(model, prepare):
    """The client sent none, and all its conversations begin with the template's."""
    model._tokenizer.chat_template = WITH_DEFAULT

    assert "helpful keeper" in text_of(model, anchor(prepare(chat(user("Hi")))))


def test_a_prompt_without_a_system_part_has_none(prepare):
    """A header alone is shorter than what is worth keeping."""
    assert anchor(prepare(chat(user("A question that is long enough for a boundary.")))) == ()


def test_no_word_of_a_message_is_in_it_when_the_system_part_comes_late(model, prepare):
    """A template may print tools into the last message: later turns share less, and no more is taken."""
    model._tokenizer.chat_template = TOOLS_AT_THE_END
    first = prepare(chat(SYSTEM, user("Hi"), tools=(TOOL,)))
    later = prepare(
        chat(SYSTEM, user("Hi"), {"role": "assistant", "content": "Yes?"}, user("Tea."), tools=(TOOL,))
    )

    assert "brew" in text_of(model, anchor(first))
    assert text_of(model, anchor(later)).startswith("<|im_start|>system")
    assert "brew" not in text_of(model, anchor(later))
    assert "Hi" not in text_of(model, anchor(later))


def test_messages_of_the_system_alone_leave_no_room_for_it(model, prepare):
    """Where the history ends no later than the system part, its own boundary is enough."""
    model._tokenizer.chat_template = REPLYING["thinking_dropped"]
    prompt = prepare(chat(SYSTEM))

    assert [boundary.origin for boundary in prompt.boundaries] == [Origin.BOUNDARY]


def test_a_template_that_refuses_the_probe_leaves_the_request_alone(model, prepare):
    """The conversation itself can be rendered: it is served, without an anchor."""
    model._tokenizer.chat_template = NO_SHORT_TALK
    prompt = prepare(chat(SYSTEM, user("A question that is long enough.")))

    assert anchor(prompt) == ()
    assert len(prompt.boundaries) == 1


def test_without_the_setting_nothing_is_looked_for(tiny):
    """No anchor and no rendering for one."""
    model = ServedChatModel(tiny("llama"), unix_seconds=lambda: 0.0, on_declined=lambda _reason: None)

    assert anchor(model.prepare(chat(SYSTEM, user("Hi")), session="s", tenant="")) == ()


class Renders:
    """What the model renders for anchors, counted."""

    def __init__(self, model) -> None:
        self.count = 0
        self._model = model

    def __call__(self, chat, known):
        self.count += 1
        return self._model._prompts.tokenised(chat, known)


def marks(model, anchors, conversation):
    prompt = model._prompts.prepare(conversation, session="s", tenant="")
    return anchor(anchors.mark(conversation, prompt))


def test_a_system_prompt_is_rendered_once(model):
    """Its end is remembered; of many system prompts the least recently used is forgotten."""
    renders = Renders(model)
    anchors = SystemAnchors(renders, min_tokens=1)

    def rendered(*messages):
        before = renders.count
        marks(model, anchors, chat(*messages))
        return renders.count - before

    def other(number):
        return {"role": "system", "content": f"Number {number}."}

    assert rendered(SYSTEM, user("one")) == 2
    assert rendered(SYSTEM, user("another"), {"role": "assistant", "content": "!"}, user("more")) == 0
    assert [rendered(other(n), user("one")) for n in range(MOST_REMEMBERED - 1)] == [2] * (
        MOST_REMEMBERED - 1
    )
    assert rendered(SYSTEM, user("one")) == 0
    assert rendered(other("last"), user("one")) == 2
    assert rendered(SYSTEM, user("one")) == 0
    assert rendered(other(0), user("one")) == 2


def test_a_conversation_that_comes_with_its_past_gets_its_own_anchor(model, prepare):
    """What is remembered of another system prompt, or of the same without tools, is not taken for it."""
    model._tokenizer.chat_template = WITH_TOOLS
    past = (user("Hi"), {"role": "assistant", "content": "Yes?"}, user("Tea, please."))
    prepare(chat(SYSTEM, user("Hi")))
    tooled = prepare(chat(SYSTEM, *past, tools=(TOOL,)))
    stern = {"role": "system", "content": "You are the stern keeper of a library."}

    assert SYSTEM["content"] in text_of(model, anchor(tooled))
    assert stern["content"] in text_of(model, anchor(prepare(chat(stern, *past))))


class Calendar:
    """Renders a conversation after the day, one token a character."""

    day = "Monday"

    def __call__(self, chat, _known):
        text = self.day + "".join(f"|{m['content']}" for m in chat.messages)
        return TokenisedText(text, pack(map(ord, text)))

    def prompt(self, chat):
        rendered = self(chat, None)
        return PreparedPrompt(
            tokens=unpack(rendered.packed),
            packed=rendered.packed,
            boundaries=(),
            bucket=Bucket(model="", cache_signature=""),
        )


def test_a_system_part_that_changes_by_itself_is_found_anew():
    """A template may print the day: the next new conversation notices, and is not left with yesterday's."""
    calendar = Calendar()
    anchors = SystemAnchors(calendar, min_tokens=1)
    talk = chat(SYSTEM, user("one"))

    def seen():
        return "".join(map(chr, anchor(anchors.mark(talk, calendar.prompt(talk)))))

    assert seen() == f"Monday|{SYSTEM['content']}|"
    calendar.day = "Tuesday"
    assert seen() == f"Tuesday|{SYSTEM['content']}|"


def test_a_history_that_is_the_system_part_has_one_boundary():
    """Two snapshots of the same tokens would be one too many."""
    calendar = Calendar()
    anchors = SystemAnchors(calendar, min_tokens=1)
    talk = chat(SYSTEM, user("one"))
    prompt = calendar.prompt(talk)
    end = len(prompt.tokens) - len("one")

    for length, origins in ((end, [Origin.BOUNDARY]), (end + 1, [Origin.SYSTEM, Origin.BOUNDARY])):
        with_history = replace(prompt, boundaries=(Boundary(Origin.BOUNDARY, length),))
        assert [b.origin for b in anchors.mark(talk, with_history).boundaries] == origins
