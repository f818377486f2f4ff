"""Keeps the numbers of a JSON text within what its readers can hold. Knows no grammar and no device.

The library's grammar of a number without bounds has no end: 1e999, which is no finite number to a reader, and
digits for ever, which weak models write. What is said is looked at byte by byte, and tokens that would go too
far are kept out, unless nothing else may come.
"""

import re
from dataclasses import dataclass

from llguidance import LLTokenizer

MOST_DIGITS = 100
"""In a row; the last token may bring a few more. With the largest exponent that is some 10 to the power of
200; the largest double is 1.8e308."""

MOST_EXPONENT_DIGITS = 2

_DIGITS = b"0123456789"
_QUOTE, _ESCAPE = b'"\\'
_TOO_FAR = re.compile(rb"[eE][+-]?\d{%d}|\d{%d}" % (MOST_EXPONENT_DIGITS + 1, MOST_DIGITS + 1))
_BEGINS = re.compile(rb"([+-]?)(\d+)")


@dataclass(frozen=True, slots=True)
class TokenDigits:
    """Which tokens would write too many digits, a bit for each token.

    `anywhere`: by themselves. `begin[n]`: because they begin with more than n digits; `signed`: the same
    after a sign, with more than an exponent has.
    """

    anywhere: int
    begin: tuple[int, ...]
    signed: int


def digits_of(vocabulary: LLTokenizer) -> TokenDigits:
    """Look through a vocabulary; takes a second for a large one."""
    anywhere = signed = 0
    begin = [0] * (MOST_EXPONENT_DIGITS + 1)
    for token in range(vocabulary.vocab_size):
        text = vocabulary.decode_bytes([token])
        bit = 1 << token
        if _TOO_FAR.search(text):
            anywhere |= bit
        if found := _BEGINS.match(text):
            digits = len(found[2])
            signed |= bit if found[1] and digits > MOST_EXPONENT_DIGITS else 0
            for most in range(len(begin)):
                begin[most] |= bit if not found[1] and digits > most else 0
    return TokenDigits(anywhere, tuple(begin), signed)


class NumberWalk:
    """Where in a JSON text a reply stands: inside of a string, or so many digits into a number."""

    def __init__(self, tokens: TokenDigits, begun: bytes) -> None:
        self._tokens = tokens
        self._in_string = self._escaped = self._in_exponent = False
        self._digits = 0
        self.take(begun)

    def take(self, text: bytes) -> None:
        """Go on by some of the text."""
        for byte in text:
            if self._in_string:
                self._in_string = self._escaped or byte != _QUOTE
                self._escaped = byte == _ESCAPE and not self._escaped
            elif byte in _DIGITS:
                self._digits += 1
            elif byte in b"eE" and self._digits:
                self._in_exponent, self._digits = True, 0
            elif not (byte in b"+-" and self._in_exponent and not self._digits):
                self._in_string = byte == _QUOTE
                self._in_exponent, self._digits = False, 0

    def bounded(self, allowed: bytes) -> bytes:
        """Of the tokens that are allowed those that do not go too far, or all where there are no others."""
        barred = self._barred()
        if not barred:
            return allowed
        bits = int.from_bytes(allowed, "little")
        left = bits & ~barred
        return allowed if left in (0, bits) else left.to_bytes(len(allowed), "little")

    def _barred(self) -> int:
        if self._in_string:
            return 0
        tokens = self._tokens
        if self._in_exponent:
            more = tokens.begin[max(MOST_EXPONENT_DIGITS - self._digits, 0)]
            return tokens.anywhere | more | (0 if self._digits else tokens.signed)
        return tokens.anywhere | (tokens.begin[0] if self._digits >= MOST_DIGITS else 0)
