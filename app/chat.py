"""A conversation on its way to the model, and its reply on the way back, as values both sides know."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple

from app.scheduler.job import Boundary
from app.snapshots.entry import Bucket, TokenBytes

NAMES_OF_OURS = frozenset(
    {
        "add_generation_prompt",
        "chat_template",
        "continue_final_message",
        "conversation",
        "messages",
        "return_assistant_tokens_mask",
        "return_dict",
        "return_tensors",
        "tokenize",
        "tools",
    }
)
"""Template variables that decide what is rendered and how: neither a setting nor a request can set them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatPrompt:
    """A conversation as a chat template takes it: plain JSON values, text content only."""

    messages: tuple[Mapping[str, Any], ...]
    tools: tuple[Mapping[str, Any], ...] | None = None
    template_kwargs: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TextPrompt:
    """A prompt as it stands, text or tokens, that no template is put around."""

    content: str | tuple[int, ...]


class Seam(NamedTuple):
    """Before a mark of a text, which no token reaches across.

    `begins`, `ends`: the mark's characters. `tokens`: how many tokens stand before it.
    """

    begins: int
    ends: int
    tokens: int


@dataclass(frozen=True, slots=True)
class TokenisedText:
    """A text, its tokens and its seams, in order."""

    text: str
    packed: TokenBytes
    seams: tuple[Seam, ...] = ()


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
    may_reason: bool = False
    """Whether the reply may begin with a thinking part: the prompt neither opens nor closes one."""
    verbatim: bool = False
    """Whether its reply is given as the model writes it: no part of it is thinking or a call."""
    rendered: TokenisedText | None = None
    """The text it was made of, from which the next turn's is tokenised; None where there is no template."""


class PieceKind(StrEnum):
    """Which part of a reply a piece of text belongs to."""

    CONTENT = "content"
    REASONING = "reasoning"


@dataclass(frozen=True, slots=True)
class Piece:
    """Some text of a reply. Neighbouring pieces of one kind belong together."""

    kind: PieceKind
    text: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a reply, whole. `arguments` is a JSON object as text.

    `index` is its place among the reply's calls. `id` is what its result will refer to: the model's own, or
    empty until somebody gives it one.
    """

    index: int
    name: str
    arguments: str
    id: str = ""


ReplyPart = Piece | ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """What a reply may call, whether more than once, and whether it has to call at all."""

    tools: tuple[Mapping[str, Any], ...]
    parallel: bool = True
    must: bool = False


@dataclass(frozen=True, slots=True)
class ReplySchema:
    """What a reply's text has to be: JSON of this schema. `field`: where the client asked for it."""

    schema: Mapping[str, Any]
    field: str


def continues_reply(chat: ChatPrompt) -> bool:
    """Whether the model goes on with the last message: it is an assistant's, and calls no tools."""
    last = chat.messages[-1]
    return bool(last["role"] == "assistant" and not last.get("tool_calls"))


def with_reply(chat: ChatPrompt, content: str, calls: Sequence[ToolCall] = ()) -> ChatPrompt:
    """The conversation as its client has it after a reply; what continued a message is joined to it."""
    called = {"tool_calls": [_as_told(call) for call in calls]} if calls else {}
    if not continues_reply(chat):
        said = {"role": "assistant", "content": content, **called}
        return replace(chat, messages=(*chat.messages, said))
    *earlier, begun = chat.messages
    return replace(chat, messages=(*earlier, {**begun, "content": begun["content"] + content, **called}))


def with_object_arguments(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message with its calls' arguments as objects: clients send JSON text, templates print objects.

    Arguments that are no JSON stay as they are: the model wrote them so, and that is how they are shown.
    """
    calls = message.get("tool_calls")
    if not calls:
        return dict(message)
    return {**message, "tool_calls": [_with_object(call) for call in calls]}


def _as_told(call: ToolCall) -> dict[str, Any]:
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }


def _with_object(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call.get("function")
    if not isinstance(function, Mapping) or not isinstance(function.get("arguments"), str):
        return dict(call)
    try:
        arguments = json.loads(function["arguments"] or "{}")
    except ValueError:
        return dict(call)
    return {**call, "function": {**function, "arguments": arguments}}
