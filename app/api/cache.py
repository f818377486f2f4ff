"""`/v1/cache`: what the snapshot store holds and did, and how to empty it."""

import asyncio
from concurrent.futures import Executor
from typing import Any, Literal

import msgspec
from litestar import Request, delete, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery
from msgspec import Struct

from app.api.audit import session_of
from app.api.authorization import caller_of, own_or_any
from app.api.cache_stats import CacheStats
from app.api.openai.refusals import refused
from app.api.services import Services


class CacheReset(Struct, frozen=True, kw_only=True):
    """What emptying the store gave back."""

    cleared: Literal[True] = True
    freed_entries: int
    freed_bytes: int


@get(
    "/cache/stats",
    summary="Numbers of the snapshot store",
    tags=["Snapshots"],
    responses=refused(400, 401, 403, 503),
)
async def cache_stats(
    request: Request[Any, Any, Any], services: NamedDependency[Services], tenant: FromQuery[str | None] = None
) -> CacheStats:
    """What the store holds, what it did since the start, and its limits; of one's own tenant, or of all."""
    return msgspec.convert(services.cache_stats(own_or_any(caller_of(request.scope), tenant)), CacheStats)


@post(
    "/cache/reset",
    status_code=200,
    summary="Empty the snapshot store",
    tags=["Snapshots"],
    responses=refused(400, 401, 403, 503),
)
async def reset_cache(
    request: Request[Any, Any, Any],
    services: NamedDependency[Services],
    prompt_thread: NamedDependency[Executor],
    tenant: FromQuery[str | None] = None,
) -> CacheReset:
    """Remove every snapshot, or every one of a tenant. What runs goes on; each next turn starts cold."""
    whose = own_or_any(caller_of(request.scope), tenant)
    cleared = await services.engine.reset(whose)
    await asyncio.get_running_loop().run_in_executor(prompt_thread, _forget_texts, services, whose)
    return CacheReset(freed_entries=cleared.entries, freed_bytes=cleared.nbytes)


# A client's own key for a session may have slashes in it.
@delete(
    "/cache/sessions/{session:path}",
    status_code=200,
    summary="Forget one session",
    tags=["Snapshots"],
    responses=refused(400, 401, 403, 503),
)
async def forget_session(
    session: FromPath[str],
    request: Request[Any, Any, Any],
    services: NamedDependency[Services],
    prompt_thread: NamedDependency[Executor],
    tenant: FromQuery[str | None] = None,
) -> CacheReset:
    """Remove what is kept of one session of the caller's tenant; an administrator may name another one."""
    caller = caller_of(request.scope)
    whose = caller.tenant if tenant is None else own_or_any(caller, tenant)
    assert whose is not None, "a tenant was named, or the caller's own is meant"
    name = session_of(session)
    cleared = await services.engine.forget_session(whose, name)
    await asyncio.get_running_loop().run_in_executor(prompt_thread, _forget_texts, services, whose, name)
    return CacheReset(freed_entries=cleared.entries, freed_bytes=cleared.nbytes)


def _forget_texts(services: Services, tenant: str | None, session: str | None = None) -> None:
    """Keep no text of theirs either. On the prompt thread, which uses it."""
    services.reasoning.forget(tenant, session)
    if services.engine.model is not None:
        services.engine.model.forget(tenant, session)
