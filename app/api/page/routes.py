"""`/`: the page for a browser, addresses as JSON for everybody else; and the files the page is made of."""

from functools import cache
from pathlib import Path
from typing import Any

from litestar import MediaType, Request, Response, get
from litestar.connection import ASGIConnection
from litestar.di import NamedDependency
from litestar.handlers import BaseRouteHandler
from litestar.openapi import ResponseSpec
from litestar.params import FromPath
from litestar.types import Guard
from msgspec import Struct

from app.api.docs import PAGE_HEADERS
from app.api.openai.refusals import refused
from app.api.operations import PageOperation
from app.api.services import Services
from app.errors import RequestError

OWN_HEADERS = PAGE_HEADERS | {
    # Its script and style are files of this server, and it asks this server alone.
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
}

_FILES = {
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


class Index(Struct, frozen=True, kw_only=True):
    """Where things are."""

    name: str = "samovar"
    version: str
    model: str | None
    """None until it is loaded."""
    chat: str = "/v1/chat/completions"
    cache: str = "/v1/cache/stats"
    overview: str = "/v1/overview"
    metrics: str = "/metrics"
    ready: str = "/readyz"
    docs: str = "/docs"
    openapi: str = "/docs/openapi.json"


@get(
    "/",
    summary="Where things are",
    tags=["Operations"],
    operation_class=PageOperation,
    responses={200: ResponseSpec(Index, description="The addresses, or the page"), **refused(401)},
)
async def index(request: Request[Any, Any, Any], services: NamedDependency[Services]) -> Response[Any]:
    """The address of everything else; in a browser, a page of what the server does."""
    if _wants_page(request):
        return Response(
            _read("page.html"), media_type=MediaType.HTML, headers=OWN_HEADERS | {"vary": "Accept"}
        )
    model = services.engine.model
    addresses = Index(version=services.version, model=model.name if model else None)
    return Response(addresses, headers={"vary": "Accept"})


@get("/page/{name:str}", include_in_schema=False)
async def page_file(name: FromPath[str]) -> Response[bytes]:
    """A file of the page; the same for everybody, so that no key is asked for."""
    kind = _FILES.get(name)
    if kind is None:
        raise RequestError(f"The page has no file {name!r}.", status=404, code="not_found")
    return Response(_read(name), headers=OWN_HEADERS | {"content-type": kind})


def except_for_page(guard: Guard) -> Guard:
    """`guard`, but for the page: it is empty before its script has asked, with a key where one is needed."""

    def guarded(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> Any:
        return None if _wants_page(connection) else guard(connection, handler)

    return guarded


def _wants_page(connection: ASGIConnection[Any, Any, Any, Any]) -> bool:
    """Whether HTML is accepted by its name, as browsers do and command-line tools do not."""
    return "text/html" in connection.headers.get("accept", "")


@cache
def _read(name: str) -> bytes:
    return Path(__file__).with_name(name).read_bytes()
