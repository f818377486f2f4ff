"""A model's tokens as the grammar library reads them. Knows no grammar and no device."""

import copy
import logging
from typing import Any

from llguidance import LLTokenizer

log = logging.getLogger(__name__)


def grammar_vocabulary(tokenizer: Any) -> LLTokenizer | None:
    """The vocabulary of mlx-lm's tokenizer, its end tokens included; None where it cannot be read.

    It takes up to seconds for a large vocabulary, and is made once.
    """
    try:
        plain = copy.copy(tokenizer.backend_tokenizer)
        plain.no_padding()
        plain.no_truncation()
        return LLTokenizer(plain.to_str(), eos_token=sorted(tokenizer.eos_token_ids))
    # Tokenizers written in Python have no backend, and some kinds have tokens without bytes of their own.
    except (AttributeError, ValueError) as error:
        log.warning("replies cannot be held to a grammar with this tokenizer: %s", _first_line(error))
        return None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
