"""Keeps the thinking of replies, for clients that send a turn back without it. It knows no wire format.

Templates that show the thinking of earlier turns would otherwise render a history that never was, and
no state of the conversation could be used again.
"""

import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Any, NamedTuple

from app.api.ports import ChatPrompt
from app.chat import with_object_arguments

LARGEST_SHARE = 8
"""One trace takes at most this part of the budget, so that no single reply pushes out all others."""

ENTRY_BYTES = 128
"""What a trace takes besides its text, about."""

Scope = tuple[str, str]
"""Tenant and session: nobody is shown what was thought for somebody else."""


class _Trace(NamedTuple):
    """What was thought, and for whom."""

    scope: Scope
    reasoning: str


class ReasoningEcho:
    """Reasoning by conversation and reply, the least recently used first to go. Used by one thread.

    Args:
        capacity_bytes: of all traces together; 0 keeps none.
    """

    def __init__(self, capacity_bytes: int) -> None:
        self._capacity_bytes = capacity_bytes
        self._traces: OrderedDict[bytes, _Trace] = OrderedDict()
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self._traces)

    def keep(self, scope: Scope, chat: ChatPrompt, reasoning: str) -> None:
        """Keep what was thought before the last message of `chat`, the reply; nothing that is too large."""
        nbytes = _size(reasoning)
        if nbytes > self._capacity_bytes // LARGEST_SHARE:
            return
        *_, (_, key) = _keys(scope, chat)
        if (replaced := self._traces.pop(key, None)) is not None:
            self.nbytes -= _size(replaced.reasoning)
        self._traces[key] = _Trace(scope, reasoning)
        self.nbytes += nbytes
        while self.nbytes > self._capacity_bytes:
            _, oldest = self._traces.popitem(last=False)
            self.nbytes -= _size(oldest.reasoning)

    def forget(self, tenant: str | None = None, session: str | None = None) -> None:
        """Forget everything, all of one tenant, or of one session of it. O(what is kept)."""
        gone = [
            key
            for key, trace in self._traces.items()
            if tenant in (None, trace.scope[0]) and session in (None, trace.scope[1])
        ]
        for key in gone:
            self.nbytes -= _size(self._traces.pop(key).reasoning)

    def restored(self, scope: Scope, chat: ChatPrompt) -> ChatPrompt:
        """The conversation with the reasoning that its client left out, where it is known."""
        if not self._traces:
            return chat
        return replace(chat, messages=tuple(self._whole(message, key) for message, key in _keys(scope, chat)))

    def _whole(self, message: Mapping[str, Any], key: bytes) -> Mapping[str, Any]:
        if message["role"] != "assistant" or message.get("reasoning_content"):
            return message
        trace = self._traces.get(key)
        if trace is None:
            return message
        self._traces.move_to_end(key)
        return {**message, "reasoning_content": trace.reasoning}


def _keys(scope: Scope, chat: ChatPrompt) -> Iterator[tuple[Mapping[str, Any], bytes]]:
    """Each message with its key: the scope, all messages before it, its calls, its text without its margins.

    Reasoning is no part of any key: a client may send it with one turn and not with the next. Calls are
    compared by what they say, because clients write their arguments anew.
    """
    before = blake2b(json.dumps(scope).encode(), digest_size=16)
    for message in chat.messages:
        plain = with_object_arguments(message) | {"content": message["content"].strip()}
        plain.pop("reasoning_content", None)
        key = before.copy()
        key.update(json.dumps([plain["content"], plain.get("tool_calls")], sort_keys=True).encode())
        yield message, key.digest()
        before.update(json.dumps(plain, sort_keys=True).encode())


def _size(reasoning: str) -> int:
    return len(reasoning.encode()) + ENTRY_BYTES
