"""The response header `x-samovar-cache`: what the snapshot store did for a request."""

from app.scheduler.job import Started

HEADER = "x-samovar-cache"


def cache_header(started: Started | None) -> dict[str, str]:
    """Hit or miss, tokens reused, why not, and where the prompt left what is kept; nothing while unknown."""
    if started is None:
        return {}
    told = ["miss" if started.miss else "hit", f"reused={started.cached_tokens}"]
    if started.miss:
        told.append(f"reason={started.miss}")
    if started.diverged_at is not None:
        told.append(f"at={started.diverged_at}")
    return {HEADER: "; ".join(told)}
