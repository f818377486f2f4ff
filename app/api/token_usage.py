"""How many tokens of a prompt came out of the store, and how many were left in it. Knows no wire format."""

from dataclasses import dataclass

from app.api.ports import PreparedPrompt
from app.scheduler.job import Started
from app.vocabulary import Miss


@dataclass(frozen=True, slots=True)
class CacheUse:
    """`read`: their state was restored. `written`: computed now, and what the next turn starts from."""

    read: int = 0
    written: int = 0


def cache_use(prompt: PreparedPrompt, started: Started | None) -> CacheUse:
    """What is known once the prefill has begun; a state that later finds no room counts as written."""
    if started is None:
        return CacheUse()
    if started.miss in (Miss.DISABLED, Miss.OPTED_OUT):
        return CacheUse(started.cached_tokens)
    kept = max((boundary.length for boundary in prompt.boundaries), default=0)
    return CacheUse(started.cached_tokens, max(kept - started.cached_tokens, 0))
