"""Tokenises what is new of a text that mostly was tokenised before. Knows no template and no tenant."""

from bisect import bisect_right
from typing import Any

from app.chat import Seam, TokenisedText
from app.engine.marks import marks_of
from app.snapshots.entry import BYTES_PER_TOKEN, TokenBytes, pack

_FIRST_STEP_CHARACTERS = 256


class Tokeniser:
    """Gives every text the tokens that it would have alone. Safe on any thread, one at a time.

    A text is cut before a mark of the tokenizer (`app.engine.marks`): what stands before a mark and what
    follows it have the same tokens together and apart. Where there is no such place, the text is tokenised
    whole.

    Args:
        tokenizer: mlx-lm's `TokenizerWrapper`.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._marks = marks_of(tokenizer)
        # The one inside, which can be called: mlx-lm's wrapper gives no offsets.
        self._stock: Any = tokenizer.encode.__self__ if self._marks else None

    def tokenise(self, text: str, known: TokenisedText | None = None) -> TokenisedText:
        """The tokens of `text`, where those of `known` are given. O(what differs), and a memcmp."""
        if known is None:
            return self._whole(text)
        if text == known.text:
            return known
        seam = self._last_seam(text, known)
        if seam is None:
            return self._whole(text)
        tail = self._whole(text[seam.begins :])
        at = seam.tokens * BYTES_PER_TOKEN
        if tail.packed[:BYTES_PER_TOKEN] != known.packed[at : at + BYTES_PER_TOKEN]:
            # The tokenizer was told to take marks for text meanwhile.
            return self._whole(text)
        kept = bisect_right(known.seams, seam.begins - 1, key=_begins)
        return TokenisedText(
            text,
            TokenBytes(known.packed[:at] + tail.packed),
            (*known.seams[:kept], *(_moved(each, seam) for each in tail.seams)),
        )

    def _last_seam(self, text: str, known: TokenisedText) -> Seam | None:
        """The last place up to which `text` has the tokens of `known`, whatever follows in either.

        A token that is looked for may begin before such a place and end behind what the two share, unless
        the one text ends there.
        """
        if self._marks is None:
            return None
        shared = common_characters(text, known.text)
        if shared == len(text):
            found = bisect_right(known.seams, shared, key=_ends)
        else:
            found = bisect_right(known.seams, shared - self._marks.longest, key=_begins)
        return known.seams[found - 1] if found else None

    def _whole(self, text: str) -> TokenisedText:
        marks = self._marks
        if marks is None:
            return TokenisedText(text, pack(self._tokenizer.encode(text, add_special_tokens=False)))
        encoded = self._stock(text, add_special_tokens=False, return_attention_mask=False).encodings[0]
        ids: list[int] = encoded.ids
        seams = []
        for position, token in enumerate(ids):
            if token in marks.contents:
                begins, ends = encoded.token_to_chars(position)
                # A model can come to a mark's token by another text, where that is normalised to the mark's.
                if text[begins:ends] == marks.contents[token]:
                    seams.append(Seam(begins, ends, position))
        return TokenisedText(text, pack(ids), tuple(seams))


def common_characters(one: str, other: str) -> int:
    """How many leading characters two texts share: a memcmp of them, in steps that grow and then halve."""
    most = min(len(one), len(other))
    same, ahead = 0, min(_FIRST_STEP_CHARACTERS, most)
    while one.startswith(other[same:ahead], same):
        if ahead == most:
            return most
        same, ahead = ahead, min(2 * ahead, most)
    # Invariant: the first `same` characters are equal, and the first `ahead` are not.
    while ahead - same > 1:
        middle = (same + ahead) // 2
        if one.startswith(other[same:middle], same):
            same = middle
        else:
            ahead = middle
    return same


def _begins(seam: Seam) -> int:
    return seam.begins


def _ends(seam: Seam) -> int:
    return seam.ends


def _moved(seam: Seam, by: Seam) -> Seam:
    return Seam(seam.begins + by.begins, seam.ends + by.begins, seam.tokens + by.tokens)
