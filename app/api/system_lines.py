"""Leaves lines out of system prompts that change from request to request. Knows no client and no template.

A system prompt comes first, so that one line of it that changes costs a conversation all of its state.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.api.ports import ChatPrompt

_ROLES = frozenset({"system", "developer"})


class SystemLines:
    """The lines that are left out.

    Args:
        pattern: a regular expression, searched for in each line of a system message; empty leaves all in.

    Raises:
        re.error: it is none.
    """

    def __init__(self, pattern: str) -> None:
        self._pattern = re.compile(pattern) if pattern else None

    def without(self, chat: ChatPrompt) -> ChatPrompt:
        """The conversation without them. O(its system messages)."""
        if self._pattern is None:
            return chat
        return replace(chat, messages=tuple(self._message(message) for message in chat.messages))

    def _message(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        if message["role"] not in _ROLES or self._pattern is None:
            return message
        lines = message["content"].splitlines(keepends=True)
        return {**message, "content": "".join(line for line in lines if not self._pattern.search(line))}
