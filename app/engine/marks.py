"""The tokens of a tokenizer that it looks for before all else. Knows no text and no prompt."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast


@dataclass(frozen=True, slots=True)
class Marks:
    """Tokens at which every text falls into parts that are tokenised each by itself.

    `contents`: token id → what stands in the text. `longest`: the characters of the longest token that is
    looked for in the text, be it a mark or not.
    """

    contents: Mapping[int, str]
    longest: int


def marks_of(tokenizer: Any) -> Marks | None:
    """The marks of mlx-lm's tokenizer; None where nothing is known of how it cuts a text.

    The library `tokenizers` first finds the added tokens that are not normalised in the text as it stands,
    the leftmost first and the longest of these. It normalises, splits and merges what is between them piece
    by piece. Those that take white space with them, or depend on what stands beside them, are no marks.
    """
    stock = getattr(tokenizer.encode, "__self__", None)
    if not isinstance(stock, PreTrainedTokenizerFast) or _does_more(type(stock)):
        return None
    backend = stock.backend_tokenizer
    # With dropout, the same text has other tokens each time.
    if getattr(backend.model, "dropout", None):
        return None
    added = backend.get_added_tokens_decoder()
    contents = {
        token: each.content
        for token, each in added.items()
        if each.content.strip() == each.content
        and not (each.normalized or each.lstrip or each.rstrip or each.single_word)
    }
    return Marks(contents, max(len(each.content) for each in added.values())) if contents else None


def _does_more(tokenizer: type[PreTrainedTokenizerFast]) -> bool:
    """Whether a class changes texts before the library sees them, or tokens after."""
    stock = PreTrainedTokenizerFast
    return (
        tokenizer.encode is not PreTrainedTokenizerBase.encode
        or tokenizer.__call__ is not PreTrainedTokenizerBase.__call__
        or tokenizer._encode_plus is not stock._encode_plus  # noqa: SLF001 - all ways lead through it
    )
