"""`GET /v1/models`: the one model there is."""

from datetime import UTC, datetime
from typing import Literal

from litestar import get
from litestar.di import NamedDependency
from litestar.params import FromPath
from msgspec import Struct

from app.api.asked import require_name
from app.api.errors import unavailable
from app.api.openai.refusals import refused
from app.api.ports import ChatModel
from app.api.services import Services


class ModelCard(Struct, frozen=True, kw_only=True):
    """A model that can be asked for, as OpenAI's clients and as Anthropic's read it.

    `context_length` counts the tokens of prompt and reply together; `created_at` is `created` as RFC 3339.
    """

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "samovar"
    context_length: int
    aliases: list[str]
    type: Literal["model"] = "model"
    display_name: str
    created_at: str


class ModelList(Struct, frozen=True, kw_only=True):
    """Every model that can be asked for."""

    object: Literal["list"] = "list"
    data: list[ModelCard]
    has_more: bool = False
    first_id: str
    last_id: str


@get("/models", summary="List the served models", tags=["OpenAI"], responses=refused(401, 403, 503))
async def list_models(services: NamedDependency[Services]) -> ModelList:
    """The served model, once it is loaded."""
    card = _card(_loaded(services))
    return ModelList(data=[card], first_id=card.id, last_id=card.id)


# A hub model's name has a slash in it.
@get(
    "/models/{name:path}",
    summary="Describe a served model",
    tags=["OpenAI"],
    responses=refused(400, 401, 403, 404, 503),
)
async def describe_model(name: FromPath[str], services: NamedDependency[Services]) -> ModelCard:
    """The served model by its name or one of its aliases."""
    model = _loaded(services)
    require_name(model, name.removeprefix("/"))
    return _card(model)


def _loaded(services: Services) -> ChatModel:
    model = services.engine.model
    if model is None:
        raise unavailable(services.engine.health())
    return model


def _card(model: ChatModel) -> ModelCard:
    return ModelCard(
        id=model.name,
        created=model.created,
        context_length=model.context_length,
        aliases=sorted(model.aliases),
        display_name=model.name,
        created_at=datetime.fromtimestamp(model.created, UTC).isoformat(),
    )
