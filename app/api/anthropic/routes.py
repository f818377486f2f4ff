"""`POST /v1/messages` and `POST /v1/messages/count_tokens`."""

import asyncio
from concurrent.futures import Executor

from litestar import post
from litestar.di import NamedDependency
from litestar.exceptions import HTTPException
from litestar.openapi import ResponseSpec
from litestar.params import JSONBody
from litestar.types import ASGIApp, ExceptionHandlersMap
from msgspec import Struct

from app.api.answer import Answer
from app.api.anthropic import translate
from app.api.anthropic.errors import REFUSALS, answer_error
from app.api.anthropic.message import AnthropicMessage, MessageWriter
from app.api.anthropic.schema import MessagesRequest, PromptRequest
from app.api.asked import served_model
from app.api.authorization import caller_of
from app.api.json_request import JsonRequest
from app.api.operations import StreamedOperation
from app.api.services import Services
from app.api.writer import Api
from app.errors import RequestError

HANDLERS: ExceptionHandlersMap = dict.fromkeys((RequestError, HTTPException, Exception), answer_error)
"""Whatever refuses a request of these routes does it in Anthropic's shape."""

API = Api("chat", "messages", MessageWriter)


class TokenCount(Struct, frozen=True):
    """How long a prompt is."""

    input_tokens: int


@post(
    "/messages",
    status_code=200,
    summary="Create a message",
    operation_class=StreamedOperation,
    tags=["Anthropic"],
    exception_handlers=HANDLERS,
    responses={
        200: ResponseSpec(AnthropicMessage, description="The reply; with `stream`, server-sent events"),
        **REFUSALS,
    },
)
async def create_message(
    data: JSONBody[MessagesRequest],
    request: JsonRequest,
    services: NamedDependency[Services],
    prompt_thread: NamedDependency[Executor],
) -> ASGIApp:
    """Answer the conversation's last message, whole or as a stream."""
    model = served_model(services, data.model)
    asked = translate.asked(data, request.headers, model)
    return Answer(services, prompt_thread, model, asked, tenant=caller_of(request.scope).tenant, api=API)


@post(
    "/messages/count_tokens",
    status_code=200,
    summary="Count a message's tokens",
    tags=["Anthropic"],
    exception_handlers=HANDLERS,
    responses=REFUSALS,
)
async def count_tokens(
    data: JSONBody[PromptRequest],
    services: NamedDependency[Services],
    prompt_thread: NamedDependency[Executor],
) -> TokenCount:
    """How many tokens the conversation is as a prompt; nothing is generated."""
    model = served_model(services, data.model)
    prompt = services.system_lines.without(translate.chat_prompt(data))

    def count() -> int:
        return len(model.tokenise(model.render(prompt), special=False))

    return TokenCount(await asyncio.get_running_loop().run_in_executor(prompt_thread, count))
