"""From generated tokens to text and tool calls: streaming detokenisation, stop strings, a reply's parts.

Pure Python over mlx-lm's detokenizers and state machine: it runs on the event loop, not on the engine.
"""

from collections.abc import Collection, Sequence
from typing import Any

from mlx_lm.generate import TextStateMachine

from app.chat import ReplyPart
from app.engine.tool_calls import CallReader

_GOES_ON = "normal"
"""The state of a reply in which no stop string has come."""


def split(state: Any, text: str) -> tuple[Any, list[tuple[str, str]]]:
    """`TextStateMachine.split`, which looks at each character, for text that mostly can begin no mark.

    Its state has its name, how much of a mark has been read, the marks of all states and the text held back.
    """
    name, read, marks, held = state
    if not held and name is not None and read is marks[name][0] and read.keys().isdisjoint(text):
        return state, [(name, text)]
    after, segments = TextStateMachine.split(state, text)
    return after, segments


class ReplyText:
    """One reply's text as it grows.

    Args:
        detokenizer: a fresh streaming detokenizer of mlx-lm.
        parts: the model's state machine of reasoning and tool marks.
        end_tokens: tokens that end the model's turn; they have no text.
        stop: strings that end the reply; never part of it.
        starts_reasoning: whether the prompt left the model inside its thinking part.
        calls: makes text and calls of the parts.
        thinks_with: a reply that begins with another token than this has no parts; None for any reply.
    """

    def __init__(
        self,
        detokenizer: Any,
        parts: TextStateMachine,
        *,
        end_tokens: Collection[int],
        stop: Sequence[str],
        starts_reasoning: bool,
        calls: CallReader,
        thinks_with: int | None = None,
    ) -> None:
        self._detokenizer = detokenizer
        self._end_tokens = end_tokens
        self._parts = parts.make_state("reasoning" if starts_reasoning else "normal")
        # A machine of its own before the parts: a stop string may lie across a mark, and must be seen in the
        # text as the model wrote it. The state behind each is named by its string, to tell which it was.
        # It looks at every character, so that there is none where there is nothing to look for.
        self._stops = (
            TextStateMachine(
                {_GOES_ON: [(text, (text,)) for text in stop]} | {(text,): [] for text in stop}
            ).make_state(_GOES_ON)
            if stop
            else None
        )
        self._calls = calls
        self._thinks_with = thinks_with
        self._stopped = False
        self.stop_string: str | None = None
        """The stop string that has ended the reply, if one has."""

    @property
    def stopped(self) -> bool:
        """Whether the reply is over before the model's turn is; everything after it is ignored.

        That is so when a stop string was found, or the one call that was allowed has been made.
        """
        return self._stopped

    @property
    def call_characters(self) -> int:
        """How long the tool call is that has begun and not ended."""
        return self._calls.open_characters

    def feed(self, token: int) -> list[ReplyPart]:
        """Take the next token; returns what is certain now. Text that may become a mark waits."""
        if self._thinks_with not in (None, token):
            self._parts = TextStateMachine().make_state("normal")
        self._thinks_with = None
        if token in self._end_tokens:
            return []
        self._detokenizer.add_token(token)
        return self._take(self._detokenizer.last_segment)

    def finish(self, *, cut: bool) -> list[ReplyPart]:
        """The rest, when no more tokens come. `cut`: not because the model's turn was over."""
        self._detokenizer.finalize()
        parts = self._take(self._detokenizer.last_segment)
        if self._stopped:
            return parts
        if self._stops is not None:
            self._stops, held, _ = TextStateMachine.flush(self._stops)
            parts += self._split(held)
        return [*parts, *self._end(cut=cut)]

    def _take(self, text: str) -> list[ReplyPart]:
        if self._stopped or not text:
            return []
        if self._stops is None:
            return self._split(text)
        self._stops, segments = TextStateMachine.split(self._stops, text)
        parts = self._split(segments[0][1])
        if len(segments) > 1 and not self._stopped:
            parts += self._end(cut=True)
            self._stopped = True
            (self.stop_string,) = segments[1][0]
        return parts

    def _split(self, text: str) -> list[ReplyPart]:
        self._parts, segments = split(self._parts, text)
        parts: list[ReplyPart] = []
        for state, segment in segments:
            parts += self._calls.take(state, segment)
            if self._calls.complete:
                self._stopped = True
                break
        return parts

    def _end(self, *, cut: bool) -> list[ReplyPart]:
        if self._stopped:
            return []
        self._parts, held, state = TextStateMachine.flush(self._parts)
        return [*self._calls.take(state, held), *self._calls.finish(cut=cut)]
