"""Where the part of a prompt ends that all conversations under its system prompt share. Knows no store."""

import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

from app.chat import ChatPrompt, PreparedPrompt, TokenisedText
from app.errors import RequestError
from app.scheduler.job import Boundary
from app.snapshots.entry import BYTES_PER_TOKEN, Bucket, TokenBytes, common_tokens, pack
from app.vocabulary import Origin

PROBE_TEXTS = ("Hello", "42")
"""Two first messages with nothing in common, so that what their prompts share is nobody's message."""

SYSTEM_ROLES = ("system", "developer")

MOST_REMEMBERED = 64
"""System prompts whose end is remembered; one costs 4 bytes a token."""

Message = Mapping[str, Any]


class SystemAnchors:
    """Finds the end of the system part, rendered with tools and all, and remembers it for each system prompt.

    The system messages are rendered before two different first messages. What both prompts share, and the
    live prompt too, holds no word of a user and no token merged with one. So a default system prompt that the
    template itself adds is found as well. One thread at a time.

    Args:
        tokenised: a conversation as a prompt, made from one that it begins as; may raise RequestError.
        min_tokens: a shorter system part is none.
    """

    def __init__(
        self, tokenised: Callable[[ChatPrompt, TokenisedText | None], TokenisedText], *, min_tokens: int
    ) -> None:
        self._tokenised = tokenised
        self._min_tokens = min_tokens
        self._shared: OrderedDict[bytes, TokenBytes] = OrderedDict()

    def mark(self, chat: ChatPrompt, prompt: PreparedPrompt) -> PreparedPrompt:
        """`prompt` with a `system` boundary before its others, where it has a system part."""
        length = common_tokens(self._shared_by_all(chat, prompt), prompt.packed)
        others = min((boundary.length for boundary in prompt.boundaries), default=len(prompt.tokens))
        if not self._min_tokens <= length < others:
            return prompt
        return replace(prompt, boundaries=(Boundary(Origin.SYSTEM, length), *prompt.boundaries))

    def _shared_by_all(self, chat: ChatPrompt, prompt: PreparedPrompt) -> TokenBytes:
        system = tuple(takewhile(lambda message: message["role"] in SYSTEM_ROLES, chat.messages))
        key = _digest(prompt.bucket, system)
        shared = self._shared.get(key)
        if shared is None or _is_outdated(shared, prompt, new=len(chat.messages) == len(system) + 1):
            shared = self._shared[key] = self._probe(chat, system, prompt.rendered)
            if len(self._shared) > MOST_REMEMBERED:
                self._shared.popitem(last=False)
        self._shared.move_to_end(key)
        return shared

    def _probe(self, chat: ChatPrompt, system: Sequence[Message], known: TokenisedText | None) -> TokenBytes:
        try:
            one, other = (
                self._tokenised(
                    replace(chat, messages=(*system, {"role": "user", "content": text})), known
                ).packed
                for text in PROBE_TEXTS
            )
        except RequestError:
            # The template takes this conversation and not that one: there is no telling what they share.
            return pack(())
        return TokenBytes(one[: common_tokens(one, other) * BYTES_PER_TOKEN])


def _is_outdated(shared: TokenBytes, prompt: PreparedPrompt, *, new: bool) -> bool:
    """Whether a new conversation leaves what was shared: templates may print the date into the system part.

    A conversation's later prompts may leave it for good, where the template moves tools to the last message.
    """
    return new and not prompt.packed.startswith(shared)


def _digest(bucket: Bucket, system: Sequence[Message]) -> bytes:
    """Names whose the system part is and what decides how it is rendered, settings and tools included."""
    messages = json.dumps([dict(message) for message in system], sort_keys=True, default=str)
    return hashlib.blake2b(
        f"{bucket.tenant}\0{bucket.template_signature}\0{messages}".encode(), digest_size=16
    ).digest()
