"""Prompts that no template is put around, and the text that comes after them."""

import copy

import pytest
from mlx_lm.tokenizer_utils import TokenizerWrapper
from tokenizers.processors import TemplateProcessing

from app.chat import ChatPrompt, PieceKind, TextPrompt
from app.engine.chat_model import ServedChatModel
from app.engine.prompt import PromptRenderer
from app.scheduler.job import Boundary
from app.vocabulary import Origin

USER = ChatPrompt(messages=({"role": "user", "content": "Hello"},), template_kwargs={})


@pytest.fixture
def declined():
    return []


@pytest.fixture
def model(tiny, declined):
    return ServedChatModel(tiny("llama"), unix_seconds=lambda: 0.0, on_declined=declined.append)


def prepare(model, content):
    return model.prepare(TextPrompt(content), session="s", tenant="t")


def test_a_rendered_conversation_is_the_same_prompt_as_a_text(model):
    """Token for token, and in the same bucket, so that a state of the one serves the other."""
    chat = model.prepare(USER, session="s", tenant="t")
    text = prepare(model, model.render(USER))

    assert (text.tokens, text.bucket) == (chat.tokens, chat.bucket)
    assert prepare(model, chat.tokens).tokens == chat.tokens


def test_the_boundary_of_a_text_is_before_its_last_token(model, declined):
    """How it goes on may merge with the last one; one token alone has nothing before it."""
    prompt = prepare(model, "Once upon a time")

    assert prompt.boundaries == (Boundary(Origin.BOUNDARY, len(prompt.tokens) - 1),)
    assert declined == []
    assert prepare(model, (5,)).boundaries == ()
    assert declined == ["empty_history"]


def test_what_begins_a_text_comes_once(tiny):
    """Where the text has it already, as a rendered one does, it is not put there again."""
    tokenizer = copy.deepcopy(tiny("llama").tokenizer._tokenizer)
    tokenizer.add_special_tokens({"bos_token": "<s>"})
    begin = tokenizer.bos_token_id
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", begin)]
    )
    prompts = PromptRenderer(TokenizerWrapper(tokenizer), model="m", cache_signature="c", adapter="")

    plain = prompts.tokenise("Once", special=False)
    assert begin not in plain
    assert prompts.tokenise("Once", special=True) == [begin, *plain]
    assert prompts.tokenise("<s>Once", special=True) == [begin, *plain]


def test_what_follows_a_text_is_text(model):
    """Marks of thinking and of calls included."""
    said = "<think>hm</think><tool_call>{}</tool_call>"
    stream = model.text_stream(prepare(model, "Once"), stop=())
    parts = [part for token in model.tokenise(said, special=False) for part in stream.feed(token)]
    parts += stream.finish(cut=False)

    assert "".join(part.text for part in parts) == said
    assert {part.kind for part in parts} == {PieceKind.CONTENT}


def test_tokens_and_text_are_two_forms_of_the_same(model):
    """Each comes back as it was."""
    tokens = model.tokenise("Ein Samowar ☕", special=False)

    assert model.text_of(tokens) == "Ein Samowar ☕"
