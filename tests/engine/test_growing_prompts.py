"""Prompts of conversations that grow are what they would be if nothing had been asked before."""

import random
from dataclasses import replace

import pytest
from transformers import PreTrainedTokenizerFast

from app.chat import ChatPrompt
from app.engine.next_turn import next_turn
from app.engine.prompt import PromptRenderer
from tests.support.random_talk import WORDS, Talk
from tests.support.templates import REPLYING, REWRITTEN
from tests.support.tokenizers import TOKENIZERS

PIECES = (*WORDS, "\n", "\n\n", " ", "<|im_end|>", "<|im_end", "<think>", "☕", "Größe")
TURNS = 12
STYLES = {**REPLYING, "rewritten": REWRITTEN}


@pytest.fixture(scope="module", params=TOKENIZERS)
def tokenizer(request):
    return TOKENIZERS[request.param]()


@pytest.mark.parametrize("style", STYLES)
def test_no_prompt_depends_on_what_was_asked_before(tokenizer, style):
    """Nor what its next turn is foretold to begin with, for clients that go on, go back or begin anew."""
    tokenizer.chat_template = STYLES[style]
    rng = random.Random(style)
    talks = [Talk(session, rng) for session in ("one", "another", "one")]
    remembers = fresh_renderer(tokenizer)

    for _ in range(TURNS):
        talk = rng.choice(talks)
        chat = talk.next_prompt()
        fresh = fresh_renderer(tokenizer)
        prompt = remembers.prepare(chat, session=talk.session, tenant="")
        assert prompt == fresh.prepare(chat, session=talk.session, tenant="")
        told = talk.hear("".join(rng.choices(PIECES, k=rng.randrange(1, 9))))
        assert next_turn(remembers, told, prompt) == next_turn(fresh, told, replace(prompt, rendered=None))


def test_only_the_same_session_of_the_same_tenant_is_quick(tokenizer, monkeypatch):
    """Nobody can tell by the time what another one asked, and what is forgotten is read anew."""
    tokenizer.chat_template = STYLES["chatml"]
    long = ChatPrompt(
        messages=tuple({"role": "user", "content": f"{n}. " + "tea " * 20} for n in range(99)),
        template_kwargs={},
    )
    renderer = fresh_renderer(tokenizer)
    read = []
    encode = PreTrainedTokenizerFast._encode_plus

    def listening(self, text, **options):
        read.append(len(text))
        return encode(self, text, **options)

    monkeypatch.setattr(PreTrainedTokenizerFast, "_encode_plus", listening)

    def characters_read(session, tenant):
        read.clear()
        renderer.prepare(long, session=session, tenant=tenant)
        return sum(read)

    whole = len(renderer.render(long))
    assert characters_read("s", "one") >= whole
    assert characters_read("s", "another") >= whole
    assert characters_read("t", "one") >= whole
    assert characters_read("s", "one") < whole / 10
    renderer.forget("one", "s")
    assert characters_read("s", "one") >= whole
    assert characters_read("t", "one") < whole / 10
    renderer.forget("one", None)
    assert characters_read("t", "one") >= whole
    assert characters_read("s", "another") < whole / 10


def fresh_renderer(tokenizer):
    return PromptRenderer(tokenizer, model="m", cache_signature="c", adapter="")
