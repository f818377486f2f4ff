"""`/livez`, `/readyz`, `/startupz`: three questions about the engine's phase, for a supervisor."""

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.openapi import ResponseSpec
from msgspec import UNSET, Struct, UnsetType

from app.api.ports import Phase, Progress
from app.api.services import Services


class Probe(Struct, frozen=True, kw_only=True):
    """An answer for a supervisor, with the reason for a person; `progress` only while the model is loaded."""

    ok: bool
    phase: Phase
    reason: str
    running: int
    waiting: int
    progress: Progress | UnsetType = UNSET


_NOT_OK = {503: ResponseSpec(Probe, description="No; the reason says why")}


@get("/livez", summary="Is a restart needed?", tags=["Operations"], responses=_NOT_OK)
async def livez(services: NamedDependency[Services]) -> Response[Probe]:
    """503 only where nothing but a restart helps: the engine is stalled or gone."""
    return _answer(services, not_ok={Phase.STALLED, Phase.FAILED})


@get("/readyz", summary="Will a request be taken?", tags=["Operations"], responses=_NOT_OK)
async def readyz(services: NamedDependency[Services]) -> Response[Probe]:
    """200 only while requests are taken: not before the model is loaded, and not while draining."""
    return _answer(services, not_ok=set(Phase) - {Phase.READY})


@get("/startupz", summary="Has the start ended?", tags=["Operations"], responses=_NOT_OK)
async def startupz(services: NamedDependency[Services]) -> Response[Probe]:
    """503 until the model is loaded, and if it never will be."""
    return _answer(services, not_ok={Phase.LOADING, Phase.CRASH_LOOP, Phase.FAILED})


def _answer(services: Services, *, not_ok: set[Phase]) -> Response[Probe]:
    health = services.engine.health()
    ok = health.phase not in not_ok
    probe = Probe(
        ok=ok,
        phase=health.phase,
        reason=health.reason,
        running=health.running,
        waiting=health.waiting,
        progress=UNSET if health.progress is None else health.progress,
    )
    return Response(probe, status_code=200 if ok else 503)
