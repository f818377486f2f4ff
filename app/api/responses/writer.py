"""Writes a response, whole or as events. Pure; knows neither sockets nor jobs."""

from collections.abc import Iterator, Sequence
from typing import Any

from app.api import sse
from app.api.ports import Piece, PieceKind, ReplyPart, ToolCall
from app.api.reply import Reply
from app.api.responses.response import (
    OutputItem,
    OutputText,
    ReasoningText,
    Response,
    ResponseShape,
    item_of,
    item_status,
)
from app.api.responses.schema import ResponsesRequest
from app.api.writer import Facts
from app.errors import RequestError

_PREFIXES = {PieceKind.CONTENT: "response.output_text", PieceKind.REASONING: "response.reasoning_text"}


class ResponseWriter:
    """Writes one reply. In a stream, an item is open from its first part until one of another kind comes.

    Args:
        facts: of the answer.
        request: what was asked for.
    """

    keep_alive = sse.KEEP_ALIVE

    def __init__(self, facts: Facts, *, request: ResponsesRequest) -> None:
        self._shape = ResponseShape(facts, request)
        self.id = self._shape.id
        self._facts = facts
        self._sequence = 0
        self._open: Piece | None = None
        self._output: list[OutputItem] = []

    def whole(self, replies: Sequence[Reply]) -> Response:
        """The response."""
        (reply,) = replies
        said = reply.said
        last = len(said) - 1
        output = [
            item_of(part, id=self._id(index), status=item_status(reply) if index == last else "completed")
            for index, part in enumerate(said)
        ]
        return self._shape.ended(reply, output)

    def opening(self, _replies: Sequence[Reply]) -> bytes:
        """That it was taken, and that it is under way."""
        return b"".join(
            self._event(name, response=self._shape.begun())
            for name in ("response.created", "response.in_progress")
        )

    def parts(self, _index: int, parts: Sequence[ReplyPart], _reply: Reply) -> bytes:
        """What the parts add to their items."""
        return b"".join(event for part in parts for event in self._part(part))

    def ended(self, _index: int, reply: Reply) -> bytes:
        """The end of the last item."""
        return b"".join(self._close(item_status(reply)))

    def closing(self, replies: Sequence[Reply]) -> bytes:
        """The whole response, and with it the end."""
        (reply,) = replies
        response = self._shape.ended(reply, self._output)
        return self._event(f"response.{response.status}", response=response)

    def failed(self, error: RequestError, _replies: Sequence[Reply]) -> bytes:
        """What there is of the response, and why there is no more."""
        return b"".join(self._close("incomplete")) + self._event(
            "response.failed", response=self._shape.failed(error, self._output)
        )

    def _part(self, part: ReplyPart) -> Iterator[bytes]:
        if isinstance(part, ToolCall):
            yield from self._close("completed")
            yield from self._call(part)
            return
        if self._open is None or self._open.kind is not part.kind:
            yield from self._close("completed")
            yield from self._begin(part.kind)
        assert self._open is not None
        self._open = Piece(part.kind, self._open.text + part.text)
        yield self._at_item(
            f"{_PREFIXES[part.kind]}.delta", content_index=0, delta=part.text, **_no_logprobs(part.kind)
        )

    def _begin(self, kind: PieceKind) -> Iterator[bytes]:
        self._open = Piece(kind, "")
        item = item_of(self._open, id=self._id(len(self._output)), status="in_progress")
        yield self._event("response.output_item.added", output_index=len(self._output), item=item)
        yield self._at_item("response.content_part.added", content_index=0, part=_part_of(self._open))

    def _close(self, status: str) -> Iterator[bytes]:
        if self._open is None:
            return
        piece, prefix = self._open, _PREFIXES[self._open.kind]
        yield self._at_item(f"{prefix}.done", content_index=0, text=piece.text, **_no_logprobs(piece.kind))
        yield self._at_item("response.content_part.done", content_index=0, part=_part_of(piece))
        self._open = None
        yield self._done(item_of(piece, id=self._id(len(self._output)), status=status))

    def _call(self, call: ToolCall) -> Iterator[bytes]:
        item_id = self._id(len(self._output))
        begun = item_of(ToolCall(call.index, call.name, "", call.id), id=item_id, status="in_progress")
        at = {"item_id": begun.id, "output_index": len(self._output)}
        yield self._event("response.output_item.added", output_index=len(self._output), item=begun)
        yield self._event("response.function_call_arguments.delta", **at, delta=call.arguments)
        yield self._event(
            "response.function_call_arguments.done", **at, name=call.name, arguments=call.arguments
        )
        yield self._done(item_of(call, id=item_id))

    def _done(self, item: OutputItem) -> bytes:
        index = len(self._output)
        self._output.append(item)
        return self._event("response.output_item.done", output_index=index, item=item)

    def _at_item(self, kind: str, /, **fields: Any) -> bytes:
        """An event of the open item."""
        assert self._open is not None
        index = len(self._output)
        item_id = item_of(self._open, id=self._id(index)).id
        return self._event(kind, item_id=item_id, output_index=index, **fields)

    def _event(self, kind: str, /, **fields: Any) -> bytes:
        data = {"type": kind, "sequence_number": self._sequence, **fields}
        self._sequence += 1
        return sse.named_event(kind, data)

    def _id(self, index: int) -> str:
        return f"{self._facts.id}_{index}"


def _no_logprobs(kind: PieceKind) -> dict[str, list[str]]:
    """A field that events of text have to have, and those of thinking have not."""
    return {"logprobs": []} if kind is PieceKind.CONTENT else {}


def _part_of(piece: Piece) -> OutputText | ReasoningText:
    return (
        ReasoningText(text=piece.text) if piece.kind is PieceKind.REASONING else OutputText(text=piece.text)
    )
