"""Server-sent events as bytes. Pure; knows neither sockets nor what the data means."""

from collections.abc import Callable

import msgspec

KEEP_ALIVE = b": keep-alive\n\n"
"""A comment: clients skip it, proxies see traffic, and a client that went away is noticed."""

DONE = b"data: [DONE]\n\n"
"""OpenAI's last event."""


_BREAKS = {char.encode(): b"\\u%04x" % ord(char) for char in "\u0085\u2028\u2029"}
"""The line breaks of Unicode that JSON leaves as they are, as UTF-8, and how JSON may have them as well."""


def one_line(data: object) -> bytes:
    """`data` as JSON in one line, also for clients that split text wherever Unicode has a line break."""
    encoded = msgspec.json.encode(data)
    for char, escaped in _BREAKS.items():
        if char in encoded:
            encoded = encoded.replace(char, escaped)
    return encoded


def event(data: object) -> bytes:
    """One event with `data` as JSON."""
    return b"data: " + one_line(data) + b"\n\n"


def named_event(name: str, data: object) -> bytes:
    """The same with a name, for clients that sort events by it."""
    return b"event: " + name.encode() + b"\n" + event(data)


class TextEvent:
    """An event that is the same each time but for one text, so that only this is encoded each time.

    Args:
        data: what the event says, by the text; called once.
    """

    def __init__(self, data: Callable[[str], object]) -> None:
        self._before, self._after = event(data(_PLACE)).split(one_line(_PLACE))

    def __call__(self, text: str) -> bytes:
        """The event with that text."""
        return self._before + one_line(text) + self._after


_PLACE = "\0text\0"
"""Where a text is to stand; no name or id has a character like these."""
