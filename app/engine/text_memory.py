"""The last prompts and their tokens, by conversation, so that the next turn's need not be made anew.

It knows no tokenizer, and no more of a conversation than its name. Used by one thread.
"""

import sys
from collections import OrderedDict
from typing import NamedTuple

from app.chat import TokenisedText
from app.engine.tokenising import common_characters

CAPACITY_BYTES = 64 * 2**20
"""Of all texts and tokens: about 100 conversations of 32k tokens."""

MOST_TEXTS = 256
"""All of a session's are looked at: clients that name none share one."""

_SEAM_BYTES = 160
"""What a seam takes with its three numbers, about."""

Scope = tuple[str, str]
"""Tenant and session: how long a prompt takes must not tell of another tenant's."""


class _Kept(NamedTuple):
    """A prompt. `settled`: of its characters, those that later turns begin with."""

    scope: Scope
    tokenised: TokenisedText
    settled: int
    nbytes: int


class TextMemory:
    """Prompts by tenant and session, the least recently used first to go.

    Args:
        capacity_bytes: of all of them together; a prompt that is larger is not kept.
        most_texts: how many of them.
    """

    def __init__(self, capacity_bytes: int = CAPACITY_BYTES, most_texts: int = MOST_TEXTS) -> None:
        self._capacity_bytes = capacity_bytes
        self._most_texts = most_texts
        self._kept: OrderedDict[int, _Kept] = OrderedDict()
        self._of_scope: dict[Scope, set[int]] = {}
        self._last_key = 0
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def nearest(self, scope: Scope, text: str) -> TokenisedText | None:
        """Of that session's prompts, the one that shares the longest beginning with `text`, now used."""
        shared = {
            key: common_characters(text, self._kept[key].tokenised.text)
            for key in self._of_scope.get(scope, ())
        }
        key = max(shared, key=lambda each: shared[each], default=None)
        if key is None or not shared[key]:
            return None
        self._kept.move_to_end(key)
        return self._kept[key].tokenised

    def keep(self, scope: Scope, tokenised: TokenisedText, settled: int) -> None:
        """Keep a prompt in place of those of its session that it goes on from.

        Args:
            scope: whose it is.
            tokenised: the prompt.
            settled: the characters of it that later turns begin with.
        """
        for key in [
            key
            for key in self._of_scope.get(scope, ())
            if common_characters(tokenised.text, self._kept[key].tokenised.text) >= self._kept[key].settled
        ]:
            self._drop(key)
        nbytes = _size(tokenised)
        if nbytes > self._capacity_bytes:
            return
        self._last_key += 1
        self._kept[self._last_key] = _Kept(scope, tokenised, settled, nbytes)
        self._of_scope.setdefault(scope, set()).add(self._last_key)
        self.nbytes += nbytes
        while self.nbytes > self._capacity_bytes or len(self._kept) > self._most_texts:
            self._drop(next(iter(self._kept)))

    def forget(self, tenant: str | None = None, session: str | None = None) -> None:
        """Forget everything, all of one tenant, or of one session of it. O(what is kept)."""
        for key in [
            key
            for key, kept in self._kept.items()
            if tenant in (None, kept.scope[0]) and session in (None, kept.scope[1])
        ]:
            self._drop(key)

    def _drop(self, key: int) -> None:
        kept = self._kept.pop(key)
        self.nbytes -= kept.nbytes
        of_scope = self._of_scope[kept.scope]
        of_scope.remove(key)
        if not of_scope:
            del self._of_scope[kept.scope]


def _size(tokenised: TokenisedText) -> int:
    return (
        sys.getsizeof(tokenised.text) + sys.getsizeof(tokenised.packed) + _SEAM_BYTES * len(tokenised.seams)
    )
