"""Builds the Litestar application from its parts: routes, limits, errors, spans. Starts nothing."""

import contextlib
from collections.abc import AsyncIterator
from concurrent.futures import Executor, ThreadPoolExecutor

from litestar import Litestar, Router
from litestar.di import Provide
from litestar.exceptions import HTTPException
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.types import ASGIApp

from app.api.cache import cache_stats, reset_cache
from app.api.docs import RoutesPage, index
from app.api.errors import answer_error
from app.api.exchange import CountRequests, IdentifyRequests
from app.api.json_request import JsonRequest
from app.api.metrics import metrics
from app.api.openai.chat import create_chat_completion
from app.api.openai.models import describe_model, list_models
from app.api.probes import livez, readyz, startupz
from app.api.services import Services
from app.api.tracing import TraceRequests
from app.errors import RequestError

INFERENCE_ROUTES = ("/v1/chat/completions",)
"""The route templates that are counted one by one; `RequestEnded.route` is one of these."""


def create_app(services: Services) -> Litestar:
    """The application, ready to be served. Cheap: it loads no model and opens nothing."""
    # One thread: tokenisers are not safe to share, and a prompt's tokens are wanted in order of arrival.
    prompt_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="prompt")

    def provide_services() -> Services:
        return services

    def provide_prompt_thread() -> Executor:
        return prompt_thread

    @contextlib.asynccontextmanager
    async def owning_the_prompt_thread(_app: Litestar) -> AsyncIterator[None]:
        yield
        prompt_thread.shutdown(wait=False, cancel_futures=True)

    return Litestar(
        route_handlers=[_api(services), livez, readyz, startupz, metrics, index],
        request_class=JsonRequest,
        dependencies={
            "services": Provide(provide_services, sync_to_thread=False),
            "prompt_thread": Provide(provide_prompt_thread, sync_to_thread=False),
        },
        exception_handlers={
            RequestError: answer_error,
            HTTPException: answer_error,
            Exception: answer_error,
        },
        lifespan=[owning_the_prompt_thread],
        request_max_body_size=services.limits.max_request_bytes,
        openapi_config=OpenAPIConfig(
            title="Samovar",
            version=services.version,
            description="A server for language models that keeps every conversation warm between turns.",
            path="/docs",
            render_plugins=[RoutesPage(path="/"), JsonRenderPlugin(path="/openapi.json")],
        ),
        # Litestar would install handlers of its own; the program configures logging once.
        logging_config=None,
    )


def _api(services: Services) -> Router:
    """Everything under `/v1`: traced and identified; inference is counted as well. Probes make no spans."""

    # Functions, because Litestar deep-copies a router with all it holds, and only a function stays itself.
    def traced(app: ASGIApp) -> ASGIApp:
        return TraceRequests(app, services.tracer)

    def identified(app: ASGIApp) -> ASGIApp:
        return IdentifyRequests(app, services.new_id)

    def counted(app: ASGIApp) -> ASGIApp:
        return CountRequests(app, services.requests, services.emit, services.clock)

    inference = Router(path="/", route_handlers=[create_chat_completion], middleware=[counted])
    return Router(
        path="/v1",
        route_handlers=[inference, list_models, describe_model, cache_stats, reset_cache],
        middleware=[traced, identified],
    )
