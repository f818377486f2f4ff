"""Says what went wrong in Anthropic's error shape. Knows nothing of any one route."""

from http import HTTPStatus
from typing import Any, Literal

from litestar import Request, Response
from litestar.openapi import ResponseSpec
from msgspec import Struct

from app.api.errors import refusal
from app.api.refusal_reasons import REFUSAL_REASONS
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
    status: ResponseSpec(AnthropicError, description=reason) for status, reason in REFUSAL_REASONS.items()
}
