"""Server-sent events as bytes. Pure; knows neither sockets nor what the data means."""

import msgspec

KEEP_ALIVE = b": keep-alive\n\n"
"""A comment: clients skip it, proxies see traffic, and a client that went away is noticed."""

DONE = b"data: [DONE]\n\n"
"""OpenAI's last event."""


def event(data: object) -> bytes:
    """One event with `data` as JSON, which has no line breaks of its own."""
    return b"data: " + msgspec.json.encode(data) + b"\n\n"


def named_event(name: str, data: object) -> bytes:
    """The same with a name, for clients that sort events by it."""
    return b"event: " + name.encode() + b"\n" + event(data)
