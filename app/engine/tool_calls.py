"""Finds the tool calls in a reply, with mlx-lm's parser for the model's own way of writing them.

Pure Python, on the event loop. It knows neither tokens nor a wire format.
"""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from app.chat import Piece, PieceKind, ReplyPart, ToolCall, ToolUse
from app.engine.parameter_types import readable

log = logging.getLogger(__name__)

TOOL_STATE = "tool"
"""What mlx-lm's state machine calls the part of a reply that lies between the marks of a call."""

_KINDS = {"reasoning": PieceKind.REASONING}
"""State → kind of text; every other state's text is content."""


@dataclass(frozen=True, slots=True)
class ToolFormat:
    """How a model writes its calls: the marks around them, and mlx-lm's parser of what is between.

    An empty `end` means that a call ends with the reply.
    """

    start: str
    end: str
    parse: Callable[[str, Any], Any]

    @property
    def name(self) -> str:
        """mlx-lm's name of the parser, which is that of its module."""
        return self.parse.__module__.rpartition(".")[2]


def tool_format(tokenizer: Any) -> ToolFormat | None:
    """What mlx-lm found in the tokenizer's settings, chat template or vocabulary; None for nothing."""
    if not tokenizer.has_tool_calling:
        return None
    return ToolFormat(tokenizer.tool_call_start, tokenizer.tool_call_end, tokenizer.tool_parser)


class CallReader:
    """Turns the parts of one reply into text and calls, in order.

    Where calls are looked for, white space that borders one is the format's layout and no text. So that a
    stream says the same as a whole reply, white space then waits for what follows it.

    Args:
        style: of the model; None finds no calls.
        use: what may be called; None looks for no calls, and leaves their text as the model wrote it.
    """

    def __init__(self, style: ToolFormat | None, use: ToolUse | None) -> None:
        self._style = style
        self._use = use if style is not None else None
        self._call: list[str] | None = None
        self.open_characters = 0
        """How long the call is that has begun and not ended; reading it can take its square in time."""
        self._margin = ""
        self._made = 0

    @property
    def complete(self) -> bool:
        """Whether the one call that was allowed has been made."""
        return self._use is not None and not self._use.parallel and self._made > 0

    def take(self, state: str, text: str) -> list[ReplyPart]:
        """The parts that are certain after some more text in that state of the state machine."""
        if state != TOOL_STATE:
            parts = self._close(ended=True)
            return (
                parts if self.complete else [*parts, *self._text(_KINDS.get(state, PieceKind.CONTENT), text)]
            )
        opening = self._style.start if self._call is None and self._style is not None else ""
        if self._call is None:
            self._call = []
        if self._use is None:
            return self._text(PieceKind.CONTENT, opening + text)
        self._call.append(text)
        self.open_characters += len(text)
        return []

    def finish(self, *, cut: bool) -> list[ReplyPart]:
        """The rest, when no more text comes. `cut`: the reply was ended, not the model's turn."""
        parts = self._close(ended=False, cut=cut)
        margin, self._margin = self._margin, ""
        return [*parts, Piece(PieceKind.CONTENT, margin)] if margin and not self._made else parts

    def _close(self, *, ended: bool, cut: bool = False) -> list[ReplyPart]:
        """End the call that is open, if one is; what cannot be read as a call is text, marks included."""
        if self._call is None or self._style is None:
            return []
        text, self._call, self.open_characters = "".join(self._call), None, 0
        closing = self._style.end if ended else ""
        if self._use is None:
            return self._text(PieceKind.CONTENT, closing)
        # Some parsers make a call of half a call, and half a command must not be carried out.
        calls = [] if cut and self._style.end else read_calls(self._style, text, self._use, index=self._made)
        if not calls:
            return self._text(PieceKind.CONTENT, self._style.start + text + closing)
        self._margin = ""
        kept = calls if self._use.parallel else calls[:1]
        self._made += len(kept)
        return list(kept)

    def _text(self, kind: PieceKind, text: str) -> list[ReplyPart]:
        if self._use is not None and kind is PieceKind.CONTENT:
            text = self._margin + text
            said = text.rstrip()
            self._margin, text = text[len(said) :], said
        return [Piece(kind, text)] if text else []


def read_calls(style: ToolFormat, text: str, use: ToolUse, *, index: int = 0) -> list[ToolCall]:
    """The calls in the text between the marks, numbered from `index`; none where it cannot be read."""
    try:
        parsed = style.parse(text, [readable(tool) for tool in use.tools])
        each = parsed if isinstance(parsed, list) else [parsed]
        return [_call(call, index + place) for place, call in enumerate(each)]
    # A parser is a program over whatever the model wrote, and can fail in any way its author left open.
    except Exception as error:  # noqa: BLE001
        # Its kind alone: the message of many such errors is the model's text.
        log.warning("a reply's tool call could not be read, and was given as text: %s", type(error).__name__)
        return []


def _call(parsed: Any, index: int) -> ToolCall:
    if not isinstance(parsed, Mapping):
        raise TypeError("a call must be an object")
    name, arguments, own_id = parsed.get("name"), parsed.get("arguments"), parsed.get("id")
    if isinstance(arguments, str):
        arguments = json.loads(arguments or "{}")
    if not (isinstance(name, str) and name) or not isinstance(arguments, Mapping | None):
        raise TypeError("a call must have a name, and an object as arguments")
    text = json.dumps(arguments or {}, ensure_ascii=False, allow_nan=False)
    # Half a surrogate pair is text to Python, and cannot be sent.
    (name + text).encode()
    return ToolCall(index, name, text, own_id if isinstance(own_id, str) else "")
