"""Puts a job's deltas together into a reply: text, counts, and how it ended. Pure; knows no wire format."""

from collections.abc import Sequence

from app.api.ports import Piece, PieceKind, TextStream
from app.events import FinishReason
from app.scheduler.job import Delta, Failed, Generated, Prefilled, Started, TokenLogprob


class Reply:
    """One reply as it grows.

    Args:
        text: turns its tokens into text.
    """

    def __init__(self, text: TextStream) -> None:
        self._text = text
        self._logprobs: list[tuple[int, TokenLogprob]] = []
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self.started: Started | None = None
        self.generated_tokens = 0
        self.finish: FinishReason | None = None
        """Set with the last token, or by a stop string."""
        self.failure: Failed | None = None

    @property
    def ended(self) -> bool:
        """Whether nothing more can come."""
        return self.finish is not None or self.failure is not None

    @property
    def content(self) -> str:
        """What its client got so far as the message's content: all text but the reasoning."""
        return "".join(self._content)

    @property
    def reasoning(self) -> str:
        """What its client got so far of the model's thinking."""
        return "".join(self._reasoning)

    @property
    def stopped_by_text(self) -> bool:
        """Whether a stop string ended it, so that the engine has to be told."""
        return self._text.stopped

    def read(self, deltas: Sequence[Delta]) -> Sequence[Piece]:
        """Take in what the engine said; returns the new text, neighbours of one kind merged.

        What follows the reply's end (tokens after a stop string) is ignored.
        """
        pieces: list[Piece] = []
        for delta in deltas:
            if self.ended:
                break
            match delta:
                case Started():
                    self.started = delta
                case Generated():
                    pieces += self._take(delta)
                case Failed():
                    self.failure = delta
                case Prefilled():
                    pass
        for piece in pieces:
            (self._reasoning if piece.kind is PieceKind.REASONING else self._content).append(piece.text)
        return _merged(pieces)

    def take_logprobs(self) -> Sequence[tuple[int, TokenLogprob]]:
        """Token ids and their log-probabilities since the last call."""
        taken, self._logprobs = self._logprobs, []
        return taken

    def _take(self, generated: Generated) -> Sequence[Piece]:
        self.generated_tokens += 1
        if generated.logprob is not None:
            self._logprobs.append((generated.token, generated.logprob))
        pieces = list(self._text.feed(generated.token))
        if generated.finish is not None and not self._text.stopped:
            pieces += self._text.finish()
        # The very last characters may complete a stop string: that is how it ended, then.
        self.finish = FinishReason.STOP if self._text.stopped else generated.finish
        return pieces


def _merged(pieces: Sequence[Piece]) -> Sequence[Piece]:
    merged: list[Piece] = []
    for piece in pieces:
        if merged and merged[-1].kind is piece.kind:
            merged[-1] = Piece(piece.kind, merged[-1].text + piece.text)
        else:
            merged.append(piece)
    return merged
