"""A chat template that does not end, or fails in any way, is one refusal."""

import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment
from mlx_lm.utils import load_tokenizer

from app.chat import ChatPrompt
from app.engine.prompt import PromptRenderer
from app.engine.render_deadline import EndlessTemplateError, render_within
from app.errors import RequestError
from tests.support.tiny import CHATML, write_byte_tokenizer

ENDLESS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
ENDLESS_MACRO = (
    "{% macro again() %}{% for a in range(99999) %}{% endfor %}{% endmacro %}"
    "{% for b in range(99999) %}{{ again() }}{% endfor %}"
)
DOUBLING = (
    "{% macro twice(n) %}{% if n %}{{ twice(n - 1) }}{{ twice(n - 1) }}{% endif %}{% endmacro %}"
    "{{ twice(99) }}"
)


def template(text):
    return ImmutableSandboxedEnvironment().from_string(text)


@pytest.mark.parametrize("text", [ENDLESS, ENDLESS_MACRO, DOUBLING])
def test_a_template_is_ended_wherever_it_goes_on(text):
    """In a loop within a loop, in a macro, and in a macro that calls itself twice."""
    with pytest.raises(EndlessTemplateError, match=r"not done after 0\.05 seconds"):
        render_within(0.05, template(text).render)


def test_what_ends_in_time_is_given_back():
    """And what it raises is raised."""
    assert render_within(60.0, template("{{ 6 * 7 }}").render) == "42"
    with pytest.raises(ZeroDivisionError):
        render_within(60.0, template("{{ 1 // 0 }}").render)


def test_nothing_is_raised_in_what_comes_after():
    """Wherever a template is when its time is over: at its end, before it, or done already."""
    render = template("{% for a in range(40) %}{{ a }}{% endfor %}").render
    done = 0
    for step in range(400):
        try:
            assert len(render_within(step * 1e-6, render)) == 70
            done += 1
        except EndlessTemplateError:
            pass
        assert sum(range(step)) == step * (step - 1) // 2

    assert done > 0


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
        renderer(tmp_path, text).prepare(GREETING, session="s", tenant="")

    assert (refused.value.status, refused.value.param) == (400, "messages")


def test_an_endless_template_is_a_refusal_with_a_code(tmp_path, monkeypatch):
    """The thread that prompts are prepared on is free again."""
    monkeypatch.setattr("app.engine.prompt.RENDER_SECONDS", 0.05)
    with pytest.raises(RequestError, match="does not end") as refused:
        renderer(tmp_path, ENDLESS).prepare(GREETING, session="s", tenant="")

    assert refused.value.code == "template_timeout"


def test_a_template_that_ends_is_rendered_as_ever(tmp_path):
    """The deadline changes no prompt."""
    prepared = renderer(tmp_path, CHATML).prepare(GREETING, session="s", tenant="")

    assert len(prepared.tokens) > len("Hello")


GREETING = ChatPrompt(messages=({"role": "user", "content": "Hello"},), template_kwargs={})


def renderer(folder, text):
    """Over a byte tokenizer with that template."""
    write_byte_tokenizer(folder, chat_template=text)
    (folder / "config.json").write_text("{}")
    return PromptRenderer(load_tokenizer(folder), model="m", cache_signature="c", adapter="")
