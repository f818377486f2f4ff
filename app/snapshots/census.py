"""How many conversations the entries belong to. It knows whose an entry is, and nothing else of it."""

from collections import Counter
from typing import Any

from app.snapshots.entry import ANONYMOUS_SESSION, Entry

_Owner = tuple[str, str, int]


class Census:
    """Counts conversations by their entries. Not thread-safe: its owner has the lock.

    Of a session that has a name, all entries are one conversation. Clients that name none share one
    session, so there each entry is a conversation. System prompts belong to nobody.
    """

    def __init__(self) -> None:
        self._entries: Counter[_Owner] = Counter()

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, entry: Entry[Any]) -> None:
        """An entry came."""
        if (owner := _owner(entry)) is not None:
            self._entries[owner] += 1

    def remove(self, entry: Entry[Any]) -> None:
        """An entry that came before has gone."""
        if (owner := _owner(entry)) is not None:
            self._entries[owner] -= 1
            if not self._entries[owner]:
                del self._entries[owner]


def _owner(entry: Entry[Any]) -> _Owner | None:
    session = entry.facts.session
    if session is None:
        return None
    return entry.bucket.tenant, session, entry.facts.id if session == ANONYMOUS_SESSION else 0
