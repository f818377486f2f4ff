"""Prompts and replies as span attributes, for operators who asked for them. Nothing else reads it.

Shape and names are those of the GenAI conventions of OpenTelemetry; a message list is one JSON string.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from opentelemetry.trace import Span

from app.api.reply import Reply
from app.chat import ChatPrompt, TextPrompt

MAX_CHARACTERS = 32_768
"""Most characters of text in one attribute: spans wait in memory, and collectors refuse large ones."""


def note_prompt(span: Span, chat: ChatPrompt | TextPrompt) -> None:
    """Set the conversation: its newest messages as far as `MAX_CHARACTERS` reach, the oldest of them cut.

    A text that no template was put around is a message of the user's; one that came as tokens is not told.
    """
    if isinstance(chat, TextPrompt):
        if isinstance(chat.content, str):
            message = {"role": "user", "content": chat.content}
            span.set_attribute("gen_ai.input.messages", _encoded([_input(message)]))
        return
    span.set_attribute("gen_ai.input.messages", _encoded([_input(message) for message in chat.messages]))
    if chat.tools:
        definitions = msgspec.json.encode(chat.tools).decode()
        if len(definitions) <= MAX_CHARACTERS:
            span.set_attribute("gen_ai.tool.definitions", definitions)


def note_text(span: Span, replies: Sequence[Reply]) -> None:
    """Set the replies as their client got them, complete or not."""
    span.set_attribute("gen_ai.output.messages", _encoded([_output(reply) for reply in replies]))


def _output(reply: Reply) -> dict[str, Any]:
    said = [("reasoning", reply.reasoning), ("text", reply.content)]
    parts = [{"type": kind, "content": text} for kind, text in said if text]
    parts += [_call(call.id, call.name, call.arguments) for call in reply.tool_calls]
    finish_reason = "error" if reply.finish_reason is None else str(reply.finish_reason)
    return {"role": "assistant", "parts": parts, "finish_reason": finish_reason}


def _input(message: Mapping[str, Any]) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    if reasoning := message.get("reasoning_content"):
        parts.append({"type": "reasoning", "content": reasoning})
    if message["role"] == "tool":
        result = {"type": "tool_call_response", "content": message["content"]}
        parts.append(result | ({"id": message["tool_call_id"]} if message.get("tool_call_id") else {}))
    elif message["content"]:
        parts.append({"type": "text", "content": message["content"]})
    for call in message.get("tool_calls") or ():
        function = call.get("function", {})
        arguments = function.get("arguments", "")
        # As text, however the client wrote them, so that they are cut like any other text.
        text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
        parts.append(_call(call.get("id", ""), function.get("name", ""), text))
    return {"role": message["role"], "parts": parts}


def _call(call_id: str, name: str, arguments: str) -> dict[str, str]:
    return {"type": "tool_call", "id": call_id, "name": name, "content": arguments}


_CONTENT_NAMES = {"tool_call": "arguments", "tool_call_response": "response"}
"""What the convention calls the text of a part that does not call it `content`."""


def _encoded(messages: Sequence[dict[str, Any]]) -> str:
    left = MAX_CHARACTERS
    kept: list[dict[str, Any]] = []
    for message in reversed(messages):
        if left <= 0:
            break
        parts = []
        for part in reversed(message["parts"]):
            text = part["content"][max(len(part["content"]) - left, 0) :] if left else ""
            left -= len(text)
            others = {name: value for name, value in part.items() if name != "content"}
            parts.append({**others, _CONTENT_NAMES.get(part["type"], "content"): text})
        kept.append({**message, "parts": parts[::-1]})
    return msgspec.json.encode(kept[::-1]).decode()
