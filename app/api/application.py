"""Builds the Litestar application from its parts: routes, limits, errors, spans. Starts nothing."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

from litestar import Litestar, Router
from litestar.config.cors import CORSConfig
from litestar.di import Provide
from litestar.exceptions import HTTPException
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components
from litestar.types import ASGIApp, Guard

from app.api.anthropic.routes import count_tokens, create_message
from app.api.audit import AuditCalls
from app.api.authorization import HoldPlaces, may, within_limits
from app.api.cache import cache_stats, forget_session, reset_cache
from app.api.described_models import DescribedModels
from app.api.docs import PAGE_HEADERS, RoutesPage
from app.api.errors import answer_error
from app.api.exchange import CountRequests, IdentifyRequests
from app.api.foreign_pages import refuse_foreign_pages
from app.api.json_request import JsonRequest
from app.api.metrics import metrics
from app.api.openai.chat import create_chat_completion
from app.api.openai.models import describe_model, list_models
from app.api.openai.text_completion import create_completion
from app.api.page.overview import overview
from app.api.page.routes import except_for_page, index, page_file
from app.api.probes import livez, readyz, startupz
from app.api.responses.routes import create_response
from app.api.security_schemes import SCHEMES, key_needed
from app.api.services import Services
from app.api.tokens import apply_template, detokenize, tokenize
from app.api.tracing import TraceRequests
from app.auth.key import Scope
from app.auth.keyring import Keyring
from app.errors import RequestError

INFERENCE_ROUTES = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages")
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
        services.settling.close()
        prompt_thread.shutdown(wait=False, cancel_futures=True)

    asked = _keys(services.keyring, *Scope) if services.public else {"guards": [], "security": []}
    for_people: dict[str, Any] = {**asked, "response_headers": PAGE_HEADERS}
    for_page = for_people | {"guards": [except_for_page(guard) for guard in for_people["guards"]]}
    return Litestar(
        route_handlers=[
            _api(services),
            *(livez, readyz, startupz),
            Router(path="/", route_handlers=[metrics], **_keys(services.keyring, Scope.METRICS)),
            # Asked for every few seconds by each page that is open: like probes, it makes no spans.
            Router(
                path="/v1",
                guards=[_own_pages_only(services)],
                route_handlers=[
                    Router(
                        path="/",
                        route_handlers=[overview],
                        **_keys(services.keyring, Scope.METRICS, Scope.ADMIN),
                    )
                ],
            ),
            Router(path="/", route_handlers=[index], **for_page),
            page_file,
        ],
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
        cors_config=_cors(services.cors_origins) if services.cors_origins else None,
        request_max_body_size=services.limits.max_request_bytes,
        openapi_config=OpenAPIConfig(
            title="Samovar",
            version=services.version,
            description="A server for language models that keeps every conversation warm between turns.",
            openapi_router=Router(path="/docs", route_handlers=[], include_in_schema=False, **for_people),
            render_plugins=[RoutesPage(path="/"), JsonRenderPlugin(path="/openapi.json")],
            components=Components(security_schemes=dict(SCHEMES)),
            use_handler_docstrings=True,
        ),
        plugins=[DescribedModels()],
        # Litestar would install handlers of its own; the program configures logging once.
        logging_config=None,
    )


def _api(services: Services) -> Router:
    """Everything under `/v1`: traced and identified; inference is counted as well. Probes make no spans."""

    # Functions, because Litestar deep-copies a router with all it holds, and only a function stays itself.
    def traced(app: ASGIApp) -> ASGIApp:
        return TraceRequests(app, services.tracer, services.clock)

    def identified(app: ASGIApp) -> ASGIApp:
        return IdentifyRequests(app, services.new_id)

    def counted(app: ASGIApp) -> ASGIApp:
        return CountRequests(app, services.requests, services.emit, services.clock)

    def audited(app: ASGIApp) -> ASGIApp:
        return AuditCalls(app, services.emit)

    keyring = services.keyring
    asking = _keys(keyring, Scope.INFERENCE)
    asking["guards"].append(within_limits(keyring))
    inference = Router(
        path="/",
        route_handlers=[create_chat_completion, create_completion, create_response, create_message],
        middleware=[counted, HoldPlaces],
        **asking,
    )
    tokens = Router(
        path="/",
        route_handlers=[count_tokens, tokenize, detokenize, apply_template],
        middleware=[HoldPlaces],
        **asking,
    )
    models = Router(path="/", route_handlers=[list_models, describe_model], **_keys(keyring, *Scope))
    own = _keys(keyring, Scope.INFERENCE, Scope.ADMIN)
    stats = Router(path="/", route_handlers=[cache_stats], **own)
    session = Router(path="/", route_handlers=[forget_session], middleware=[audited], **own)
    reset = Router(
        path="/", route_handlers=[reset_cache], middleware=[audited], **_keys(keyring, Scope.ADMIN)
    )
    return Router(
        path="/v1",
        route_handlers=[inference, tokens, models, stats, session, reset],
        guards=[_own_pages_only(services)],
        middleware=[traced, identified],
    )


def _keys(keyring: Keyring, *scopes: Scope) -> dict[str, Any]:
    """A router's options where a key of one of `scopes` is asked for; the schema says what the guard does."""
    return {"guards": [may(keyring, *scopes)], "security": key_needed(keyring, *scopes)}


def _own_pages_only(services: Services) -> Guard:
    return refuse_foreign_pages(services.keyring, services.cors_origins, local=not services.public)


def _cors(origins: Sequence[str]) -> CORSConfig:
    return CORSConfig(
        allow_origins=list(origins),
        allow_methods=["GET", "POST", "DELETE"],
        allow_headers=["*"],
        expose_headers=["x-request-id", "x-samovar-cache", "retry-after", "traceresponse"],
    )
