"""How much of a conversation a span may carry."""

import json

from opentelemetry.sdk.trace import Span as RecordingSpan
from opentelemetry.sdk.trace import TracerProvider

from app.api.captured_content import MAX_CHARACTERS, note_prompt
from app.chat import ChatPrompt


def told(*texts: str) -> list[dict[str, object]]:
    """What is on the span of a conversation of users' messages."""
    span = TracerProvider(shutdown_on_exit=False).get_tracer("test").start_span("chat")
    assert isinstance(span, RecordingSpan)
    messages = tuple({"role": "user", "content": text} for text in texts)
    note_prompt(span, ChatPrompt(messages=messages, template_kwargs={}))
    messages_told: list[dict[str, object]] = json.loads(str((span.attributes or {})["gen_ai.input.messages"]))
    return messages_told


def test_a_long_conversation_keeps_its_end():
    """The newest text stays as far as the bound reaches, and what is older goes, the oldest kept one cut."""
    old, middle, new = "a" * MAX_CHARACTERS, "b" * MAX_CHARACTERS, "c" * 10
    assert told(old, middle, new) == [
        {"role": "user", "parts": [{"type": "text", "content": "b" * (MAX_CHARACTERS - 10)}]},
        {"role": "user", "parts": [{"type": "text", "content": new}]},
    ]


def test_a_short_conversation_is_told_whole():
    """Nothing is cut that fits."""
    assert told("one", "two") == [
        {"role": "user", "parts": [{"type": "text", "content": text}]} for text in ("one", "two")
    ]
