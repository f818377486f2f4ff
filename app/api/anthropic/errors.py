"""Says what went wrong in Anthropic's error shape. Knows nothing of any one route."""

from http import HTTPStatus
from typing import Any, Literal

from litestar import Request, Response
from litestar.openapi import ResponseSpec
from msgspec import Struct

from app.api.errors import refusal
from app.errors import RequestError

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}


class AnthropicErrorDetail(Struct, frozen=True):
    """What Anthropic's clients read of an error."""

    type: str
    message: str


class AnthropicError(Struct, frozen=True, kw_only=True):
    """The body of every answer that is an error, and the event that ends a broken stream."""

    type: Literal["error"] = "error"
    error: AnthropicErrorDetail
    request_id: str | None = None


def anthropic_error(error: RequestError, *, request_id: str | None = None) -> AnthropicError:
    """`error` as clients read it; its kind follows from its status."""
    otherwise = "api_error" if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR else "invalid_request_error"
    kind = _TYPES.get(error.status, otherwise)
    return AnthropicError(error=AnthropicErrorDetail(kind, error.message), request_id=request_id)


def answer_error(request: Request[Any, Any, Any], error: Exception) -> Response[AnthropicError]:
    """The response to a request that raised."""
    told, headers = refusal(request, error)
    body = anthropic_error(told, request_id=request.scope["state"].get("request_id"))
    return Response(body, status_code=told.status, headers=headers)


REFUSALS = {
    400: ResponseSpec(AnthropicError, description="The request cannot be served as asked"),
    401: ResponseSpec(AnthropicError, description="An API key is needed"),
    403: ResponseSpec(AnthropicError, description="The API key may not do this"),
    404: ResponseSpec(AnthropicError, description="Another model was asked for"),
    429: ResponseSpec(
        AnthropicError, description="Too many requests, of all or of this key; see Retry-After"
    ),
    503: ResponseSpec(AnthropicError, description="Loading, draining or failed; see Retry-After"),
}
