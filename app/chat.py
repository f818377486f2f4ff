"""A conversation on its way to the model, and its reply on the way back, as values both sides know."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from app.scheduler.job import Boundary
from app.snapshots.entry import Bucket, TokenBytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatPrompt:
    """A conversation as a chat template takes it: plain JSON values, text content only."""

    messages: tuple[Mapping[str, Any], ...]
    tools: tuple[Mapping[str, Any], ...] | None = None
    template_kwargs: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedPrompt:
    """A prompt in tokens, and what of it may be captured or reused. `packed` is `tokens` packed."""

    tokens: tuple[int, ...]
    packed: TokenBytes
    boundaries: tuple[Boundary, ...]
    bucket: Bucket
    capture_declined: str | None = None
    """Why there is no boundary to capture, from a closed set of short names; None where there is one."""
    starts_reasoning: bool = False
    """Whether the prompt itself opens the model's thinking part, so that the reply begins inside it."""


class PieceKind(StrEnum):
    """Which part of a reply a piece of text belongs to."""

    CONTENT = "content"
    REASONING = "reasoning"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class Piece:
    """Some text of a reply. Neighbouring pieces of one kind belong together."""

    kind: PieceKind
    text: str


def continues_reply(chat: ChatPrompt) -> bool:
    """Whether the model goes on with the last message: it is an assistant's, and calls no tools."""
    last = chat.messages[-1]
    return bool(last["role"] == "assistant" and not last.get("tool_calls"))


def with_reply(chat: ChatPrompt, content: str) -> ChatPrompt:
    """The conversation as its client has it after a reply; what continued a message is joined to it."""
    if not continues_reply(chat):
        return replace(chat, messages=(*chat.messages, {"role": "assistant", "content": content}))
    *earlier, begun = chat.messages
    return replace(chat, messages=(*earlier, {**begun, "content": begun["content"] + content}))
