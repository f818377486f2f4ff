"""`POST /v1/responses`."""

from concurrent.futures import Executor
from functools import partial

from litestar import post
from litestar.di import NamedDependency
from litestar.openapi import ResponseSpec
from litestar.params import JSONBody
from litestar.types import ASGIApp

from app.api.answer import Answer
from app.api.asked import served_model
from app.api.authorization import caller_of
from app.api.json_request import JsonRequest
from app.api.openai.refusals import REFUSALS
from app.api.operations import StreamedOperation
from app.api.responses import translate
from app.api.responses.response import Response
from app.api.responses.schema import ResponsesRequest
from app.api.responses.writer import ResponseWriter
from app.api.services import Services
from app.api.writer import Api


@post(
    "/responses",
    status_code=200,
    summary="Create a response",
    operation_class=StreamedOperation,
    tags=["OpenAI"],
    responses={
        200: ResponseSpec(Response, description="The response; with `stream`, server-sent events"),
        **REFUSALS,
    },
)
async def create_response(
    data: JSONBody[ResponsesRequest],
    request: JsonRequest,
    services: NamedDependency[Services],
    prompt_thread: NamedDependency[Executor],
) -> ASGIApp:
    """Answer the conversation's last item, whole or as a stream. No response is stored."""
    model = served_model(services, data.model)
    return Answer(
        services,
        prompt_thread,
        model,
        translate.asked(data, request.headers, model),
        tenant=caller_of(request.scope).tenant,
        api=Api("chat", "input", partial(ResponseWriter, request=data)),
    )
