"""Prompts of conversations that grow are what they would be if nothing had been asked before."""

import random
from dataclasses import replace

import pytest

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


def fresh_renderer(tokenizer):
    return PromptRenderer(tokenizer, model="m", cache_signature="c", adapter="")
