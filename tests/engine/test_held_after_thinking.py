"""Replies of reasoning models that are held to a schema: thinking is free, the answer after it is not."""

import json
from itertools import pairwise

import jsonschema
import pytest

from app.chat import ChatPrompt
from app.engine.constraint import ReplyConstraint, Thinking, all_but
from app.engine.grammar import GrammarCompiler, json_rule
from app.engine.vocabulary import grammar_vocabulary
from app.scheduler.job import Sampling
from app.vocabulary import FinishReason
from tests.engine.conftest import new_decoder
from tests.support.decoding import run
from tests.support.held import Holding
from tests.support.jobs import make_job
from tests.support.marked import marked_model
from tests.support.templates import THINKING_CALLS
from tests.support.tiny import CHATML

THINK, DONE, CALL, CALLED = (258 + index for index in range(4))
MARKS = ("<think>", "</think>", "<tool_call>", "</tool_call>")
SCHEMA = {
    "type": "object",
    "properties": {
        "n": {"type": "integer", "minimum": 0, "maximum": 999},
        "mark": {"const": "<think>a</think>"},
    },
    "required": ["n", "mark"],
    "additionalProperties": False,
}
OPENED = CHATML.replace("assistant\n' }}{% endif %}", "assistant\n<think>\n' }}{% endif %}")


@pytest.fixture(scope="module")
def holding(tmp_path_factory) -> Holding:
    """A model that may think first, or not, as its prompt says."""
    folder = tmp_path_factory.mktemp("thinking")
    return Holding(marked_model(folder, MARKS, parser="json_tools", chat_template=THINKING_CALLS))


@pytest.fixture(scope="module")
def opened(tmp_path_factory) -> Holding:
    """A model whose prompts end inside its thinking part."""
    assert OPENED != CHATML
    return Holding(marked_model(tmp_path_factory.mktemp("opened"), MARKS, chat_template=OPENED))


def say(holding: Holding, *, biases: dict[int, float], seed: int = 0, max_tokens: int = 4000, **kwargs):
    """A reply held to SCHEMA, of a model with such wishes."""
    _, prompt = holding.prompt(**kwargs)
    spaces = dict.fromkeys(holding.model.tokenise(" \n", special=False), -30.0)
    job = make_job(
        prompt.tokens,
        max_tokens=max_tokens,
        constraint=holding.held(schema=SCHEMA, **kwargs),
        sampling=Sampling(temperature=1.0, seed=seed, logit_bias=tuple(sorted({**spaces, **biases}.items()))),
    )
    return holding.read(run(new_decoder(holding.loaded), job).generated, schema=SCHEMA, **kwargs)


def test_a_model_that_thinks_first_thinks_freely_and_answers_by_the_schema(holding):
    """Text of any kind up to the mark, and JSON after it; a mark inside the JSON is part of it."""
    replies = [say(holding, biases={DONE: 1.0}, seed=seed) for seed in range(8)]
    for said in replies:
        jsonschema.validate(json.loads(said.content), SCHEMA)
        assert said.finish is FinishReason.STOP
    thoughts = [said.reasoning for said in replies if said.reasoning]
    assert 0 < len(thoughts) < len(replies), "some begin with a thought, some with the answer"
    assert max(map(len, thoughts)) > 10


def test_a_model_that_may_think_need_not(holding):
    """An answer that begins at once is held from its first token."""
    said = say(holding, biases={THINK: -100.0})
    jsonschema.validate(json.loads(said.content), SCHEMA)
    assert said.reasoning == ""
    assert json.loads(said.content)["mark"] == "<think>a</think>"


def test_where_the_prompt_closed_the_thinking_there_is_none(holding):
    """With thinking switched off the answer begins at once, however much the model would like to think."""
    said = say(holding, biases={THINK: 100.0}, enable_thinking=False, max_tokens=200)
    jsonschema.validate(json.loads(said.content), SCHEMA)
    assert said.reasoning == ""


@pytest.mark.parametrize("seed", range(3))
def test_where_the_prompt_opened_the_thinking_the_reply_begins_inside_it(opened, seed):
    """Everything up to the closing mark is thought, and the JSON is the content."""
    said = say(opened, biases={THINK: -100.0, DONE: 3.0}, seed=seed)
    jsonschema.validate(json.loads(said.content), SCHEMA)


def test_no_thought_is_the_end_of_a_reply_or_the_beginning_of_a_call(holding):
    """Inside the thinking part neither can come: the one would leave no answer, the other go round it."""
    said = say(holding, biases={THINK: 60.0, 257: 90.0, CALL: 95.0, DONE: 80.0})
    jsonschema.validate(json.loads(said.content), SCHEMA)
    assert said.calls == ()


def test_thinking_that_uses_up_the_limit_leaves_no_answer(opened):
    """The reply is cut as any other is, and says so."""
    said = say(opened, biases={DONE: -100.0}, max_tokens=30)
    assert (said.content, said.finish) == ("", FinishReason.LENGTH)
    assert said.reasoning


def constraint_of(tmp_path, marks, **how) -> ReplyConstraint:
    """One over a byte tokenizer with these marks; its text is in the tokens of its bytes."""
    tokenizer = marked_model(tmp_path, marks).tokenizer
    vocabulary = grammar_vocabulary(tokenizer)
    assert vocabulary is not None
    grammar = GrammarCompiler(vocabulary).matcher(f"start: {json_rule({'const': [1]})}\n", schemas=())
    opens = tuple(tokenizer.encode("<think>", add_special_tokens=False))
    free = all_but({257}, vocabulary.vocab_size)
    return ReplyConstraint(
        vocabulary=vocabulary, grammar=grammar, thinking=Thinking(opens, b"</think>", free), **how
    )


def allowed(walk) -> list[int]:
    """The tokens that may come next."""
    bits = walk.allowed()
    return [token for token in range(len(bits) * 8) if bits[token // 8] >> token % 8 & 1]


def feed(walk, constraint: ReplyConstraint, text: str) -> None:
    for token in constraint.vocabulary.tokenize_str(text):
        walk.take(token)


def test_the_closing_mark_counts_in_whatever_tokens_it_is_written(tmp_path):
    """Spelled in single characters, it ends the thinking as its own token does."""
    constraint = constraint_of(tmp_path, (), starts_thinking=True)
    walk = constraint.begin()
    feed(walk, constraint, "so </thin </think")
    assert len(allowed(walk)) > 200
    feed(walk, constraint, ">")
    assert [constraint.vocabulary.decode_str([token]) for token in allowed(walk)] == ["["]
    feed(walk, constraint, "[1]")
    assert (allowed(walk), walk.failure) == ([257], "")


def test_a_token_that_holds_the_marks_end_and_what_follows_counts_as_both(tmp_path):
    """The answer has begun within it: what comes next continues that."""
    constraint = constraint_of(tmp_path, ("k>[",), starts_thinking=True)
    walk = constraint.begin()
    feed(walk, constraint, "</thin")
    walk.take(258)
    assert constraint.vocabulary.decode_str(allowed(walk)[:1]) in {" ", "\n", "1"}
    feed(walk, constraint, "1]")
    assert walk.failure == ""


def test_a_mark_of_several_tokens_is_begun_only_to_be_finished(tmp_path):
    """After the first of the opening mark's tokens no other than the next of them can come."""
    constraint = constraint_of(tmp_path, (), may_think=True)
    opening = constraint.thinking.opens_with if constraint.thinking else ()
    walk = constraint.begin()
    assert opening[0] in allowed(walk)
    assert len(opening) == len("<think>")
    for token, following in pairwise(opening):
        walk.take(token)
        assert allowed(walk) == [following]
    walk.take(opening[-1])
    assert len(allowed(walk)) > 200


def test_the_prompt_says_whether_the_reply_may_think(holding, opened):
    """Not where it has opened the part, closed it, or where a message is continued."""
    assert holding.prompt()[1].may_reason
    assert not holding.prompt(enable_thinking=False)[1].may_reason
    assert opened.prompt()[1].starts_reasoning
    assert not opened.prompt()[1].may_reason
    going_on = ({"role": "user", "content": "Say it."}, {"role": "assistant", "content": "{"})
    assert not holding.prompt(*going_on)[1].may_reason
    assert isinstance(holding.prompt()[0], ChatPrompt)


def test_an_empty_line_may_come_between_the_thinking_and_the_answer(opened):
    """As models were taught to write it; a second one may not, nor any without a thinking part."""
    held = opened.held(schema=SCHEMA)
    assert isinstance(held, ReplyConstraint)
    (line,) = opened.model.tokenise("\n", special=False)
    walk = held.begin()
    walk.take(DONE)
    for _ in range(2):
        assert line in allowed(walk)
        walk.take(line)
    assert line not in allowed(walk)
