"""`GET /v1/overview`: the server at one instant, as the page shows it. Reads only what others count."""

from litestar import get
from litestar.di import NamedDependency
from msgspec import Struct

from app.api.openai.refusals import refused
from app.api.page.facts import RecentRequest, SnapshotFill
from app.api.ports import Phase, Progress
from app.api.services import Services


class ServedModel(Struct, frozen=True, kw_only=True):
    """The model and the names it answers to."""

    name: str
    aliases: list[str]
    context_length: int


class Overview(Struct, frozen=True, kw_only=True):
    """The server at one instant.

    `model` and `snapshots` are null until the model is loaded. `requests` are the last ones, newest first.
    """

    version: str
    phase: Phase
    reason: str
    progress: Progress | None
    uptime_seconds: float
    running: int
    waiting: int
    model: ServedModel | None
    snapshots: SnapshotFill | None
    requests: list[RecentRequest]


@get("/overview", summary="The server at one instant", tags=["Operations"], responses=refused(401, 403))
async def overview(services: NamedDependency[Services]) -> Overview:
    """Model, phase, store and the last requests of all tenants, without a word of what was said in them."""
    health = services.engine.health()
    model = services.engine.model
    return Overview(
        version=services.version,
        phase=health.phase,
        reason=health.reason,
        progress=health.progress,
        uptime_seconds=services.uptime_seconds(),
        running=health.running,
        waiting=health.waiting,
        model=None
        if model is None
        else ServedModel(name=model.name, aliases=sorted(model.aliases), context_length=model.context_length),
        snapshots=services.snapshot_fill(),
        requests=list(services.recent_requests()),
    )
