"""From generated tokens to text: streaming detokenisation, stop strings, reasoning and tool parts.

Pure Python over mlx-lm's detokenizers and state machine: it runs on the event loop, not on the engine.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from mlx_lm.generate import TextStateMachine

from app.chat import Piece, PieceKind

_KINDS = {"normal": PieceKind.CONTENT, "reasoning": PieceKind.REASONING, "tool": PieceKind.TOOL}


class ReplyText:
    """One reply's text as it grows.

    Args:
        detokenizer: a fresh streaming detokenizer of mlx-lm.
        parts: the model's state machine of reasoning and tool marks.
        end_tokens: tokens that end the model's turn; they have no text.
        stop: strings that end the reply; never part of it.
        starts_reasoning: whether the prompt left the model inside its thinking part.
    """

    def __init__(
        self,
        detokenizer: Any,
        parts: TextStateMachine,
        *,
        end_tokens: Collection[int],
        stop: Sequence[str],
        starts_reasoning: bool,
    ) -> None:
        self._detokenizer = detokenizer
        self._end_tokens = end_tokens
        self._parts = parts.make_state("reasoning" if starts_reasoning else "normal")
        # A state of its own before the parts, with None as the machine's own word for the end: a stop
        # string may lie across a mark, and must be seen in the text as the model wrote it.
        stops = TextStateMachine({"normal": [(text, None) for text in stop]} if stop else None)
        self._stops = stops.make_state("normal")
        self._stopped = False

    @property
    def stopped(self) -> bool:
        """Whether a stop string was found; everything after it is ignored."""
        return self._stopped

    def feed(self, token: int) -> list[Piece]:
        """Take the next token; returns the text that is certain now. Text that may become a mark waits."""
        if token in self._end_tokens:
            return []
        self._detokenizer.add_token(token)
        return self._take(self._detokenizer.last_segment)

    def finish(self) -> list[Piece]:
        """The rest of the text, when no more tokens come."""
        self._detokenizer.finalize()
        pieces = self._take(self._detokenizer.last_segment)
        if not self._stopped:
            self._stops, held, _ = TextStateMachine.flush(self._stops)
            pieces += self._split(held)
        self._parts, held, state = TextStateMachine.flush(self._parts)
        return [*pieces, *_pieces([(state, held)])]

    def _take(self, text: str) -> list[Piece]:
        if self._stopped or not text:
            return []
        self._stops, segments = TextStateMachine.split(self._stops, text)
        self._stopped = segments[-1][0] is None
        return self._split("".join(part for _, part in segments))

    def _split(self, text: str) -> list[Piece]:
        self._parts, segments = TextStateMachine.split(self._parts, text)
        return _pieces(segments)


def _pieces(segments: Iterable[tuple[str, str]]) -> list[Piece]:
    return [Piece(_KINDS.get(state, PieceKind.CONTENT), text) for state, text in segments if text]
