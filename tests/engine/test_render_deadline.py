"""A chat template that does not end, or fails in any way, is one refusal."""

import sys

import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment
from mlx_lm.utils import load_tokenizer

from app.chat import ChatPrompt
from app.engine.prompt import PromptRenderer
from app.engine.render_deadline import EndlessTemplateError, render_deadline
from app.errors import RequestError
from tests.support.tiny import CHATML, write_byte_tokenizer

ENDLESS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
ENDLESS_MACRO = (
    "{% macro again() %}{% for a in range(99999) %}{% endfor %}{% endmacro %}"
    "{% for b in range(99999) %}{{ again() }}{% endfor %}"
)


def template(text):
    return ImmutableSandboxedEnvironment().from_string(text)


@pytest.mark.parametrize("text", [ENDLESS, ENDLESS_MACRO])
def test_a_template_is_ended_wherever_it_loops(text):
    """In a loop within a loop, and in a macro."""
    with pytest.raises(EndlessTemplateError, match=r"not done after 0\.05 seconds"), render_deadline(0.05):
        template(text).render()


def test_the_time_is_that_of_the_clock_given():
    """A template that is slow by the clock is ended, however quick it is."""
    times = iter(range(0, 10_000, 100))
    with pytest.raises(EndlessTemplateError), render_deadline(1.0, clock=lambda: next(times)):
        template("{% for a in range(999) %}{{ a }}\n{% endfor %}").render()


def test_other_code_may_take_its_time_and_tracing_is_as_before():
    """Only templates are looked at, and whoever traced the thread goes on."""

    def tracer(_frame, _event, _argument):
        return None

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        with render_deadline(0.0):
            assert sum(n for n in range(10_000)) == 49_995_000
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{{ 1 // 0 }}", "zero"),
        ("{{ 'x' * 10 ** 15 }}", "MemoryError"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion"),
        ("{% for a in range(10 ** 9) %}{% endfor %}", "Range too big"),
        ("{{ messages.__class__.__mro__ }}", "unsafe"),
        ("{{ raise_exception('no such role') }}", "no such role"),
        ("{{ nothing.at.all }}", "undefined"),
    ],
)
def test_a_template_that_fails_is_a_refusal_that_says_why(tmp_path, text, reason):
    """Whatever it was: 400, with the field at fault."""
    with pytest.raises(RequestError, match=reason) as refused:
        renderer(tmp_path, text).prepare(GREETING, tenant="")

    assert (refused.value.status, refused.value.param) == (400, "messages")


def test_an_endless_template_is_a_refusal_with_a_code(tmp_path, monkeypatch):
    """The thread that prompts are prepared on is free again."""
    monkeypatch.setattr("app.engine.prompt.render_deadline", lambda: render_deadline(0.05))
    with pytest.raises(RequestError, match="does not end") as refused:
        renderer(tmp_path, ENDLESS).prepare(GREETING, tenant="")

    assert refused.value.code == "template_timeout"


def test_a_template_that_ends_is_rendered_as_ever(tmp_path):
    """The deadline changes no prompt."""
    prepared = renderer(tmp_path, CHATML).prepare(GREETING, tenant="")

    assert len(prepared.tokens) > len("Hello")


GREETING = ChatPrompt(messages=({"role": "user", "content": "Hello"},), template_kwargs={})


def renderer(folder, text):
    """Over a byte tokenizer with that template."""
    write_byte_tokenizer(folder, chat_template=text)
    (folder / "config.json").write_text("{}")
    return PromptRenderer(load_tokenizer(folder), model="m", cache_signature="c", adapter="")
