"""Puts a job's deltas together into a reply: text, tool calls, counts, its end. Knows no wire format."""

from base64 import b32encode
from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import groupby

from app.api.ports import Piece, PieceKind, ReplyPart, TextStream, ToolCall
from app.scheduler.job import Delta, Failed, Generated, Prefilled, Started, TokenLogprob
from app.vocabulary import FinishReason

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
        self._said: list[ReplyPart] = []
        self._thinks = True
        self.started: Started | None = None
        self.generated_tokens = 0
        self.reasoning_tokens = 0
        """How many tokens it had when the last of the thinking came that it began with; 0 without."""
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
        return self._text_of(PieceKind.CONTENT)

    @property
    def reasoning(self) -> str:
        """What its client got so far of the model's thinking."""
        return self._text_of(PieceKind.REASONING)

    @property
    def tool_calls(self) -> Sequence[ToolCall]:
        """The calls its client got so far, each with an id."""
        return [part for part in self._said if isinstance(part, ToolCall)]

    @property
    def said(self) -> Sequence[ReplyPart]:
        """All its client got so far, in order, neighbouring text of one kind merged."""
        return merged(self._said)

    @property
    def stop_string(self) -> str | None:
        """The stop string that has ended it, if one has."""
        return self._text.stop_string

    @property
    def call_characters(self) -> int:
        """How long the tool call is that has begun and not ended; reading on may have it parsed."""
        return self._text.call_characters

    @property
    def finish_reason(self) -> str | None:
        """Why it ended, as clients are told: a turn that ended with calls waits for their results."""
        if self.finish is FinishReason.STOP and self.tool_calls:
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
        return merged([self._kept(part) for part in new])

    @property
    def logprobs_due(self) -> bool:
        """Whether `take_logprobs` has any."""
        return bool(self._logprobs)

    def take_logprobs(self) -> Sequence[tuple[int, TokenLogprob]]:
        """Token ids and their log-probabilities since the last call."""
        taken, self._logprobs = self._logprobs, []
        return taken

    def _take(self, generated: Generated) -> Sequence[ReplyPart]:
        self.generated_tokens += 1
        if generated.logprob is not None:
            self._logprobs.append((generated.token, generated.logprob))
        parts = self._text.feed(generated.token)
        self._count_reasoning(parts)
        if generated.finish is not None and not self._text.stopped:
            parts = [*parts, *self._text.finish(cut=generated.finish is not FinishReason.STOP)]
        # The very last characters may complete a stop string: that is how it ended, then.
        self.finish = FinishReason.STOP if self._text.stopped else generated.finish
        return parts

    def _count_reasoning(self, parts: Sequence[ReplyPart]) -> None:
        if not self._thinks:
            return
        self._thinks = all(isinstance(part, Piece) and part.kind is PieceKind.REASONING for part in parts)
        if self._thinks and parts:
            self.reasoning_tokens = self.generated_tokens

    def _kept(self, part: ReplyPart) -> ReplyPart:
        if isinstance(part, ToolCall) and not part.id:
            part = replace(part, id=_call_id(self._id, part.index))
        self._said.append(part)
        return part

    def _text_of(self, kind: PieceKind) -> str:
        return "".join(part.text for part in self._said if isinstance(part, Piece) and part.kind is kind)


def _call_id(reply_id: str, index: int) -> str:
    digest = blake2b(f"{reply_id}/{index}".encode(), digest_size=CALL_ID_CHARACTERS).digest()
    return b32encode(digest).decode().lower()[:CALL_ID_CHARACTERS]


def merged(parts: Sequence[ReplyPart]) -> Sequence[ReplyPart]:
    """The same, with neighbouring text of one kind in one piece. O(characters)."""
    if len(parts) < 2:  # noqa: PLR2004 - one part has no neighbour
        return parts
    one: list[ReplyPart] = []
    for is_text, group in groupby(parts, key=lambda part: part.kind if isinstance(part, Piece) else None):
        if is_text is None:
            one += group
        else:
            one.append(Piece(is_text, "".join(part.text for part in group if isinstance(part, Piece))))
    return one
