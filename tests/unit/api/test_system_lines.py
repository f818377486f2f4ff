"""Laws of what is left out of system prompts."""

from typing import Any

from app.api.ports import ChatPrompt
from app.api.system_lines import SystemLines

BILLING = "x-billing: cc_version=2.1; cch=8f3a"


def chat(*messages: dict[str, Any]) -> ChatPrompt:
    return ChatPrompt(messages=messages, template_kwargs={})


def test_a_line_that_changes_is_left_out_of_the_system_prompt_alone() -> None:
    """Whole lines that the pattern is found in; what users and the model say stays as it is."""
    lines = SystemLines(r"^x-billing:|[Tt]oday's date")
    said = chat(
        {"role": "system", "content": f"{BILLING}\nBe kind.\n  Today's date: 1 May\nBe brief."},
        {"role": "user", "content": BILLING},
    )

    assert [message["content"] for message in lines.without(said).messages] == [
        "Be kind.\nBe brief.",
        BILLING,
    ]


def test_two_requests_that_differ_in_such_lines_are_one_prompt() -> None:
    """Whatever the line says, and whether or not there is one at all."""
    lines = SystemLines("^x-billing:")
    prompts = [
        lines.without(chat({"role": "system", "content": text}))
        for text in (f"{BILLING}\nBe kind.", "x-billing: other\nBe kind.", "Be kind.")
    ]

    assert prompts[0] == prompts[1] == prompts[2]


def test_without_a_pattern_nothing_is_left_out() -> None:
    """Switched off, a conversation is what its client sent."""
    said = chat({"role": "system", "content": BILLING})
    assert SystemLines("").without(said) is said
