"""A message as Anthropic's clients read it, whole or as events. Pure; knows neither sockets nor jobs."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from app.api import sse
from app.api.anthropic.errors import anthropic_error
from app.api.ports import Piece, PieceKind, ReplyPart, ToolCall
from app.api.reply import Reply
from app.api.token_usage import cache_use
from app.api.writer import Facts
from app.errors import RequestError

_STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}


class TextBlock(Struct, frozen=True, tag="text"):
    """What the model said."""

    text: str


class ThinkingBlock(Struct, frozen=True, tag="thinking"):
    """What the model thought. The signature is empty: it is taken back without one."""

    thinking: str
    signature: str = ""


class ToolUseBlock(Struct, frozen=True, tag="tool_use"):
    """A call that the client is to make. Its result comes back under `id`."""

    id: str
    name: str
    input: dict[str, Any]


ContentBlock = TextBlock | ThinkingBlock | ToolUseBlock


class AnthropicUsage(Struct, frozen=True, kw_only=True):
    """Tokens. Those of the prompt are the sum of the three counts of input."""

    input_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    output_tokens: int


class AnthropicMessage(Struct, frozen=True, kw_only=True):
    """A reply."""

    id: str
    type: Literal["message"] = "message"
    role: Literal["assistant"] = "assistant"
    model: str
    content: list[ContentBlock]
    stop_reason: str | None
    stop_sequence: str | None
    usage: AnthropicUsage


class MessageWriter:
    """Writes one reply. In a stream, a block is open from its first part until one of another kind comes."""

    keep_alive = sse.named_event("ping", {"type": "ping"})

    def __init__(self, facts: Facts) -> None:
        self.id = f"msg_{facts.id}"
        self._facts = facts
        self._open: PieceKind | None = None
        self._blocks = 0

    def whole(self, replies: Sequence[Reply]) -> AnthropicMessage:
        """The message."""
        (reply,) = replies
        content = [_block(part) for part in reply.said]
        return self._message(reply, content, _stop_reason(reply), reply.stop_string)

    def opening(self, replies: Sequence[Reply]) -> bytes:
        """The message without its content."""
        (reply,) = replies
        return _event({"type": "message_start", "message": self._message(reply, [], None, None)})

    def parts(self, _index: int, parts: Sequence[ReplyPart], _reply: Reply) -> bytes:
        """What the parts add to their blocks."""
        return b"".join(event for part in parts for event in self._part(part))

    def ended(self, _index: int, reply: Reply) -> bytes:
        """The end of the last block, and why the reply ended."""
        delta = {"stop_reason": _stop_reason(reply), "stop_sequence": reply.stop_string}
        usage = self._usage(reply)
        return b"".join(self._close()) + _event({"type": "message_delta", "delta": delta, "usage": usage})

    def closing(self, _replies: Sequence[Reply]) -> bytes:
        """Anthropic's word for the end."""
        return _event({"type": "message_stop"})

    def failed(self, error: RequestError, _replies: Sequence[Reply]) -> bytes:
        """An event with the error; there is no end after it."""
        return sse.named_event("error", anthropic_error(error))

    def _message(
        self, reply: Reply, content: list[ContentBlock], stop_reason: str | None, stop_sequence: str | None
    ) -> AnthropicMessage:
        return AnthropicMessage(
            id=self.id,
            model=self._facts.model,
            content=content,
            stop_reason=stop_reason,
            stop_sequence=stop_sequence,
            usage=self._usage(reply),
        )

    def _usage(self, reply: Reply) -> AnthropicUsage:
        use = cache_use(self._facts.prompt, reply.started)
        return AnthropicUsage(
            input_tokens=self._facts.prompt_tokens - use.read - use.written,
            cache_creation_input_tokens=use.written,
            cache_read_input_tokens=use.read,
            output_tokens=reply.generated_tokens,
        )

    def _part(self, part: ReplyPart) -> Iterator[bytes]:
        if isinstance(part, ToolCall):
            yield from self._close()
            yield self._start(ToolUseBlock(part.id, part.name, {}))
            yield self._delta({"type": "input_json_delta", "partial_json": part.arguments})
            yield from self._stop()
            return
        thinks = part.kind is PieceKind.REASONING
        if self._open is not part.kind:
            yield from self._close()
            self._open = part.kind
            yield self._start(ThinkingBlock("") if thinks else TextBlock(""))
        yield self._delta(
            {"type": "thinking_delta", "thinking": part.text}
            if thinks
            else {"type": "text_delta", "text": part.text}
        )

    def _close(self) -> Iterator[bytes]:
        if self._open is not None:
            self._open = None
            yield from self._stop()

    def _start(self, block: ContentBlock) -> bytes:
        return _event({"type": "content_block_start", "index": self._blocks, "content_block": block})

    def _delta(self, delta: dict[str, str]) -> bytes:
        return _event({"type": "content_block_delta", "index": self._blocks, "delta": delta})

    def _stop(self) -> Iterator[bytes]:
        yield _event({"type": "content_block_stop", "index": self._blocks})
        self._blocks += 1


def _block(part: ReplyPart) -> ContentBlock:
    match part:
        case ToolCall():
            return ToolUseBlock(part.id, part.name, msgspec.json.decode(part.arguments))
        case Piece(kind=PieceKind.REASONING):
            return ThinkingBlock(part.text)
        case Piece():
            return TextBlock(part.text)


def _stop_reason(reply: Reply) -> str | None:
    if reply.stop_string is not None:
        return "stop_sequence"
    return _STOP_REASONS.get(reply.finish_reason or "")


def _event(data: dict[str, Any]) -> bytes:
    return sse.named_event(data["type"], data)
