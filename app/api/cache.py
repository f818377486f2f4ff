"""`/v1/cache`: what the snapshot store holds and did, and how to empty it."""

from typing import Any, Literal

from litestar import get, post
from litestar.di import NamedDependency
from msgspec import Struct

from app.api.services import Services


class CacheReset(Struct, frozen=True, kw_only=True):
    """What emptying the store gave back."""

    cleared: Literal[True] = True
    freed_entries: int
    freed_bytes: int


@get("/cache/stats", summary="Numbers of the snapshot store", tags=["Snapshots"])
async def cache_stats(services: NamedDependency[Services]) -> dict[str, Any]:
    """What the store holds, what it did since the start, and its limits."""
    return dict(services.cache_stats())


@post("/cache/reset", status_code=200, summary="Empty the snapshot store", tags=["Snapshots"])
async def reset_cache(services: NamedDependency[Services]) -> CacheReset:
    """Remove every snapshot. Running requests go on; the next turn of each conversation starts cold."""
    cleared = await services.engine.reset()
    return CacheReset(freed_entries=cleared.entries, freed_bytes=cleared.nbytes)
