"""Holds a reply to a grammar, token by token: thinking is free, and the answer after it is not.

Knows no device: what is allowed next is bytes with a bit for each token.
"""

from dataclasses import dataclass
from enum import Enum, auto

from llguidance import LLMatcher, LLTokenizer

from app.engine.number_bounds import NumberWalk, TokenDigits

TOO_COMPLEX = "what the reply has to be became too complex to follow; ask for something simpler"

_WORD_BITS = 32


@dataclass(frozen=True, slots=True)
class Thinking:
    """How a model marks its thinking part.

    `opens_with`: the tokens of the mark before it. `closes_with`: the text of the mark after it; text, as
    its characters may come in other tokens. `free`: what is allowed in between.
    """

    opens_with: tuple[int, ...]
    closes_with: bytes
    free: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyConstraint:
    """What one prompt's reply may say. Any number of replies may be held to it.

    Args:
        vocabulary: of the model.
        grammar: a matcher at the answer's beginning; it is copied, and stays there.
        thinking: None for a model that has no thinking part.
        starts_thinking: whether the reply begins inside it.
        may_think: whether it may begin with one.
        digits: of the vocabulary, where the answer is JSON as a whole, whose numbers are then kept in bounds.
        begun: what of the answer is there already.
    """

    vocabulary: LLTokenizer
    grammar: LLMatcher
    thinking: Thinking | None = None
    starts_thinking: bool = False
    may_think: bool = False
    digits: TokenDigits | None = None
    begun: bytes = b""

    def begin(self) -> "ReplyWalk":
        """One reply's way through it, at its beginning."""
        return ReplyWalk(self)


class _Part(Enum):
    """Where in a reply its next token lies."""

    BEGINNING = auto()
    """Thinking may begin here, or the answer."""
    OPENING = auto()
    """Inside the mark before the thinking part."""
    THINKING = auto()
    ANSWER = auto()


class ReplyWalk:
    """Where a reply stands: what it has said, and what may come next."""

    def __init__(self, constraint: ReplyConstraint) -> None:
        self._vocabulary = constraint.vocabulary
        self._grammar = constraint.grammar.deep_copy()
        self._thinking = constraint.thinking
        self._part = _Part.ANSWER
        if constraint.thinking is not None and constraint.starts_thinking:
            self._part = _Part.THINKING
        elif constraint.thinking is not None and constraint.may_think:
            self._part = _Part.BEGINNING
        self._numbers = None if constraint.digits is None else NumberWalk(constraint.digits, constraint.begun)
        self._opened = 0
        self._thought = b""
        self.failure = ""
        """Why it cannot go on; what is allowed means nothing then."""

    def take(self, token: int) -> None:
        """Go on by the token that was chosen."""
        thinking = self._thinking
        if thinking is None or self._part is _Part.ANSWER:
            self._answer([token])
            return
        if self._part is _Part.THINKING:
            self._think(thinking, token)
            return
        if self._part is _Part.BEGINNING and token != thinking.opens_with[0]:
            self._part = _Part.ANSWER
            self._answer([token])
            return
        self._opened += 1
        self._part = _Part.THINKING if self._opened == len(thinking.opens_with) else _Part.OPENING

    def allowed(self) -> bytes:
        """A bit for each token that may come next, the lowest bit of the first byte being token 0's."""
        thinking = self._thinking
        if thinking is not None and self._part is _Part.THINKING:
            return thinking.free
        if thinking is not None and self._part is _Part.OPENING:
            return _only(thinking.opens_with[self._opened], self._vocabulary.vocab_size)
        allowed = self._grammar.compute_bitmask()
        if self._grammar.is_error():
            self.failure = TOO_COMPLEX
        if self._numbers is not None:
            allowed = self._numbers.bounded(allowed)
        if thinking is not None and self._part is _Part.BEGINNING:
            return _with(allowed, thinking.opens_with[0])
        return allowed

    def _think(self, thinking: Thinking, token: int) -> None:
        text = self._thought + self._vocabulary.decode_bytes([token])
        _, found, rest = text.partition(thinking.closes_with)
        if not found:
            self._thought = text[-len(thinking.closes_with) :]
            return
        self._part = _Part.ANSWER
        if rest:
            # One token held the mark's end and what follows it.
            self._answer(self._vocabulary.tokenize_bytes(rest))

    def _answer(self, tokens: list[int]) -> None:
        # Once nothing but the turn's end can come, the grammar takes not even that.
        if not self._grammar.is_stopped() and not self._grammar.consume_tokens(tokens):
            self.failure = TOO_COMPLEX
        if self._numbers is not None:
            self._numbers.take(self._vocabulary.decode_bytes(tokens))


def all_but(tokens: set[int], vocabulary_size: int) -> bytes:
    """A bit for every token but these."""
    words = bytearray(b"\xff" * _mask_bytes(vocabulary_size))
    for token in tokens:
        words[token // 8] &= ~(1 << token % 8)
    return bytes(words)


def _only(token: int, vocabulary_size: int) -> bytes:
    return _with(bytes(_mask_bytes(vocabulary_size)), token)


def _with(allowed: bytes, token: int) -> bytes:
    more = bytearray(allowed)
    more[token // 8] |= 1 << token % 8
    return bytes(more)


def _mask_bytes(vocabulary_size: int) -> int:
    return -(-vocabulary_size // _WORD_BITS) * _WORD_BITS // 8
