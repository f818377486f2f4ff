"""The boundary holds whatever the reply turns out to be, with a tokenizer that merges across the seam."""

import pytest
from mlx_lm.tokenizer_utils import TokenizerWrapper
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from app.chat import ChatPrompt
from app.engine.prompt import PromptRenderer
from tests.support.templates import REPLYING
from tests.support.tiny import CHATML, SPECIAL_TOKENS

SYSTEM = {"role": "system", "content": "Be brief."}
USER = {"role": "user", "content": "What is the weather?"}
AGAIN = {"role": "user", "content": "And tomorrow?"}
RESULT = {"role": "tool", "tool_call_id": "1", "content": "sunny"}
TOOL = {"type": "function", "function": {"name": "w", "parameters": {}}}
CALL = {
    "role": "assistant",
    "content": "",
    "reasoning_content": "I should look.",
    "tool_calls": [{"type": "function", "id": "1", "function": {"name": "w", "arguments": '{"c": "Bern"}'}}],
}
REPLIES = {
    "plain": {"role": "assistant", "content": "Sunny."},
    "blank": {"role": "assistant", "content": ""},
    "begins with lines": {"role": "assistant", "content": "\n\nSunny."},
    "begins with blanks": {"role": "assistant", "content": "  \n Sunny."},
    "goes on as a word": {"role": "assistant", "content": "s, sunny."},
    "thought about": {"role": "assistant", "content": "Sunny.", "reasoning_content": "It is June."},
    "calls": CALL,
}
STYLES = {
    **REPLYING,
    "words only": (
        "{% for m in messages %}{{ m.role + ': ' + (m.content or '') + '\n' }}{% endfor %}"
        "{% if add_generation_prompt %}assistant:{% endif %}"
    ),
}
CORPUS = [
    "\n",
    "\n\n",
    "\n\n\n",
    " \n",
    "::",
    " s",
    "assistant:",
    "assistant\n\n",
    "user: What is the weather?",
] * 9


@pytest.fixture(scope="module")
def tokenizer() -> TokenizerWrapper:
    """Byte-pair merges within words and within runs of white space, as most models have them."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    bpe.train_from_iterator(CORPUS, trainer)
    bpe.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS])
    fast = PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token=SPECIAL_TOKENS[1], chat_template=CHATML)
    return TokenizerWrapper(fast)


@pytest.fixture(params=STYLES)
def prepare(request, tokenizer):
    tokenizer.chat_template = STYLES[request.param]
    renderer = PromptRenderer(tokenizer, model="m", cache_signature="c", adapter="")

    def prepared(*messages, thinking):
        chat = ChatPrompt(messages=messages, tools=(TOOL,), template_kwargs={"enable_thinking": thinking})
        return renderer.prepare(chat, session="s", tenant="")

    return prepared


@pytest.mark.parametrize("reply", REPLIES)
@pytest.mark.parametrize("thinking", [False, True], ids=["without thinking", "with thinking"])
def test_every_next_prompt_begins_with_the_boundary(prepare, thinking, reply):
    """Whatever was replied, and whoever speaks after it."""
    following = RESULT if reply == "calls" else AGAIN

    first = prepare(SYSTEM, USER, thinking=thinking)
    second = prepare(SYSTEM, USER, REPLIES[reply], following, thinking=thinking)

    (boundary,) = first.boundaries
    assert boundary.length > 0
    assert second.tokens[: boundary.length] == first.tokens[: boundary.length]


def test_a_reply_can_merge_with_the_prompts_last_token(tokenizer):
    """So the boundary must end before it, or the next turn would miss."""
    line, lines = (
        tokenizer.encode(f"<|im_start|>assistant{text}", add_special_tokens=False) for text in ("\n", "\n\n")
    )

    assert line[:-1] == lines[:-1]
    assert line[-1] != lines[-1]
