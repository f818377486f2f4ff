"""Puts a job's deltas together into a reply: text, tool calls, counts, its end. Knows no wire format."""

from base64 import b32encode
from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import blake2b

from app.api.ports import Piece, PieceKind, ReplyPart, TextStream, ToolCall
from app.events import FinishReason
from app.scheduler.job import Delta, Failed, Generated, Prefilled, Started, TokenLogprob

CALL_ID_CHARACTERS = 9
"""Templates that refuse other ids than their own take nine letters and digits."""


class Reply:
    """One reply as it grows.

    Args:
        text: turns its tokens into text.
        id: unlike any other reply's; its tool calls get their ids from it.
    """

    def __init__(self, text: TextStream, *, id: str = "") -> None:  # noqa: A002 - that is what it is
        self._text = text
        self._id = id
        self._logprobs: list[tuple[int, TokenLogprob]] = []
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._tool_calls: list[ToolCall] = []
        self.started: Started | None = None
        self.generated_tokens = 0
        self.finish: FinishReason | None = None
        """Set with the last token, or by a stop string, or by the one call that was allowed."""
        self.failure: Failed | None = None

    @property
    def ended(self) -> bool:
        """Whether nothing more can come."""
        return self.finish is not None or self.failure is not None

    @property
    def content(self) -> str:
        """What its client got so far as the message's content: all text but reasoning and tool calls."""
        return "".join(self._content)

    @property
    def reasoning(self) -> str:
        """What its client got so far of the model's thinking."""
        return "".join(self._reasoning)

    @property
    def tool_calls(self) -> Sequence[ToolCall]:
        """The calls its client got so far, each with an id."""
        return self._tool_calls

    @property
    def finish_reason(self) -> str | None:
        """Why it ended, as clients are told: a turn that ended with calls waits for their results."""
        if self.finish is FinishReason.STOP and self._tool_calls:
            return "tool_calls"
        return self.finish

    @property
    def stopped_by_text(self) -> bool:
        """Whether its text ended it, so that the engine has to be told."""
        return self._text.stopped

    def read(self, deltas: Sequence[Delta]) -> Sequence[ReplyPart]:
        """Take in what the engine said; returns what is new, neighbouring text of one kind merged.

        What follows the reply's end (tokens after a stop string) is ignored.
        """
        new: list[ReplyPart] = []
        for delta in deltas:
            if self.ended:
                break
            match delta:
                case Started():
                    self.started = delta
                case Generated():
                    new += self._take(delta)
                case Failed():
                    self.failure = delta
                case Prefilled():
                    pass
        return _merged(self._kept(part) for part in new)

    def take_logprobs(self) -> Sequence[tuple[int, TokenLogprob]]:
        """Token ids and their log-probabilities since the last call."""
        taken, self._logprobs = self._logprobs, []
        return taken

    def _take(self, generated: Generated) -> Sequence[ReplyPart]:
        self.generated_tokens += 1
        if generated.logprob is not None:
            self._logprobs.append((generated.token, generated.logprob))
        parts = list(self._text.feed(generated.token))
        if generated.finish is not None and not self._text.stopped:
            parts += self._text.finish(cut=generated.finish is not FinishReason.STOP)
        # The very last characters may complete a stop string: that is how it ended, then.
        self.finish = FinishReason.STOP if self._text.stopped else generated.finish
        return parts

    def _kept(self, part: ReplyPart) -> ReplyPart:
        if isinstance(part, ToolCall):
            part = part if part.id else replace(part, id=_call_id(self._id, part.index))
            self._tool_calls.append(part)
        else:
            (self._reasoning if part.kind is PieceKind.REASONING else self._content).append(part.text)
        return part


def _call_id(reply_id: str, index: int) -> str:
    digest = blake2b(f"{reply_id}/{index}".encode(), digest_size=CALL_ID_CHARACTERS).digest()
    return b32encode(digest).decode().lower()[:CALL_ID_CHARACTERS]


def _merged(parts: Iterable[ReplyPart]) -> Sequence[ReplyPart]:
    merged: list[ReplyPart] = []
    for part in parts:
        last = merged[-1] if merged else None
        if isinstance(part, Piece) and isinstance(last, Piece) and last.kind is part.kind:
            merged[-1] = Piece(part.kind, last.text + part.text)
        else:
            merged.append(part)
    return merged
