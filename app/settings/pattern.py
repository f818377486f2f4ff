"""Regular expressions as settings: which are some. Knows no setting."""

import re


def check_pattern(text: str) -> None:
    """Raise ValueError where `text` is no regular expression of Python."""
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(str(error)) from error
