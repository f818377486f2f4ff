"""`GET /v1/models`: the one model there is."""

from typing import Literal

from litestar import get
from litestar.di import NamedDependency
from litestar.params import FromPath
from msgspec import Struct

from app.api.errors import unavailable
from app.api.ports import ChatModel
from app.api.services import Services
from app.errors import RequestError


class ModelCard(Struct, frozen=True, kw_only=True):
    """A model that can be asked for. `context_length` counts the tokens of prompt and reply together."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "samovar"
    context_length: int


class ModelList(Struct, frozen=True, kw_only=True):
    """Every model that can be asked for."""

    object: Literal["list"] = "list"
    data: list[ModelCard]


@get("/models", summary="List the served models", tags=["OpenAI"])
async def list_models(services: NamedDependency[Services]) -> ModelList:
    """The served model, once it is loaded."""
    return ModelList(data=[_card(_loaded(services))])


# A hub model's name has a slash in it.
@get("/models/{name:path}", summary="Describe a served model", tags=["OpenAI"])
async def describe_model(name: FromPath[str], services: NamedDependency[Services]) -> ModelCard:
    """The served model by its name or one of its aliases."""
    model = _loaded(services)
    asked = name.removeprefix("/")
    if asked != model.name and asked not in model.aliases:
        raise RequestError(
            f"The model '{asked}' is not served here; '{model.name}' is.",
            status=404,
            param="model",
            code="model_not_found",
        )
    return _card(model)


def _loaded(services: Services) -> ChatModel:
    model = services.engine.model
    if model is None:
        raise unavailable(services.engine.health())
    return model


def _card(model: ChatModel) -> ModelCard:
    return ModelCard(id=model.name, created=model.created, context_length=model.context_length)
