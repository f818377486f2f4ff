"""One turn of a talk with a running server, as it grows. Knows the wire format, and no terminal."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from app.commands.http_client import credentials, reaching, why_refused
from app.errors import SamovarError

# A server that works on a long prompt sends a comment every few seconds.
_SILENT_SECONDS = 60.0
_CONNECT_SECONDS = 10.0

_EVENT = "data: "
_LAST = "[DONE]"


@dataclass(frozen=True, slots=True)
class Said:
    """Some more text of the reply; `thinking`: of what the model thinks before it answers."""

    text: str
    thinking: bool


@dataclass(frozen=True, slots=True)
class Counted:
    """What the turn took, told at its end. `cache`: what became of it, as in the header `x-samovar-cache`."""

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    cache: str


def turn(url: str, messages: Sequence[Mapping[str, str]], *, session: str) -> Iterator[Said | Counted]:
    """The reply to `messages`; left before its end, the server stops generating it.

    Raises:
        SamovarError: nothing answers there, or with an error.
    """
    body = {
        "messages": list(messages),
        "prompt_cache_key": session,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    with (
        reaching(url, timeout_seconds=_SILENT_SECONDS),
        httpx.stream(
            "POST",
            f"{url.rstrip('/')}/v1/chat/completions",
            json=body,
            headers=credentials(),
            timeout=httpx.Timeout(_SILENT_SECONDS, connect=_CONNECT_SECONDS),
        ) as answer,
    ):
        if not answer.is_success:
            answer.read()
            raise SamovarError(why_refused(answer))
        for line in answer.iter_lines():
            event = line.removeprefix(_EVENT)
            # What is no event is a comment or the empty line after one.
            if event == line:
                continue
            if event == _LAST:
                return
            yield from _read(json.loads(event), answer.headers.get("x-samovar-cache", ""))
    raise SamovarError("the server closed the connection in the middle of the reply")


def _read(event: Mapping[str, Any], cache: str) -> Iterator[Said | Counted]:
    if "error" in event:
        raise SamovarError(str(event["error"]["message"]))
    for choice in event["choices"]:
        for field, thinking in (("reasoning_content", True), ("content", False)):
            if text := choice["delta"].get(field):
                yield Said(text, thinking)
    if usage := event.get("usage"):
        yield Counted(
            prompt_tokens=usage["prompt_tokens"],
            cached_tokens=usage["prompt_tokens_details"]["cached_tokens"],
            completion_tokens=usage["completion_tokens"],
            cache=cache,
        )
