"""Says what went wrong in OpenAI's error shape. Knows nothing of any one route."""

import logging
from http import HTTPStatus
from typing import Any

from litestar import Request, Response
from litestar.exceptions import HTTPException
from msgspec import Struct

from app.api.ports import Health, Phase
from app.errors import RequestError
from app.scheduler.job import Failed

RETRY_AFTER_SECONDS = 5
"""What a 503 advises: a drain, a load or a restart takes seconds rather than milliseconds."""

SERVER_ERROR = "server_error"

log = logging.getLogger(__name__)


class ErrorDetail(Struct, frozen=True):
    """What OpenAI's clients read of an error. `type` is the kind, `param` the field at fault."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(Struct, frozen=True):
    """The body of every answer that is an error, and of the frame that ends a broken stream."""

    error: ErrorDetail


def error_body(error: RequestError) -> ErrorBody:
    """`error` as clients read it."""
    return ErrorBody(ErrorDetail(error.message, error.kind, error.param, error.code))


def failure(failed: Failed) -> RequestError:
    """A job's failure as the answer to its request."""
    if failed.status < HTTPStatus.INTERNAL_SERVER_ERROR:
        return RequestError(failed.message, status=failed.status)
    return RequestError(
        failed.message,
        status=failed.status,
        kind=SERVER_ERROR,
        retry_after_seconds=RETRY_AFTER_SECONDS if failed.status == HTTPStatus.SERVICE_UNAVAILABLE else None,
    )


def unavailable(health: Health) -> RequestError:
    """Why an engine that is not ready takes no work, and when to ask again."""
    return RequestError(
        f"The server takes no requests now: {health.reason or health.phase}.",
        status=503,
        kind=SERVER_ERROR,
        code=f"engine_{health.phase}",
        # A stalled or failed engine waits for a restart, which loads the model again.
        retry_after_seconds=RETRY_AFTER_SECONDS if health.phase in (Phase.LOADING, Phase.DRAINING) else 30,
    )


def answer_error(request: Request[Any, Any, Any], error: Exception) -> Response[ErrorBody]:
    """The response to a request that raised."""
    told, headers = refusal(request, error)
    return Response(error_body(told), status_code=told.status, headers=headers)


def refusal(request: Request[Any, Any, Any], error: Exception) -> tuple[RequestError, dict[str, str]]:
    """What the client is told, and the headers of that; an exception nobody foresaw is logged, not shown."""
    headers: dict[str, str] = {}
    if isinstance(error, HTTPException):
        headers = {str(name): str(value) for name, value in (error.headers or {}).items()}
        error = _from_http(request, error)
    if not isinstance(error, RequestError):
        log.error("request failed: %s %s", request.method, request.url.path, exc_info=error)
        error = RequestError(
            "The server failed on this request; its log says why.", status=500, kind=SERVER_ERROR
        )
    if error.retry_after_seconds is not None:
        headers["retry-after"] = str(error.retry_after_seconds)
    if error.challenge is not None:
        headers["www-authenticate"] = error.challenge
    return error, headers


def _from_http(request: Request[Any, Any, Any], error: HTTPException) -> RequestError:
    """Litestar's own refusals, said in full."""
    match error.status_code:
        case 404:
            return RequestError(
                f"There is nothing at {request.url.path}; /docs lists what there is.",
                status=404,
                code="not_found",
            )
        case 405:
            return RequestError(
                f"{request.url.path} does not take {request.method}; /docs says what it takes.",
                status=405,
                code="method_not_allowed",
            )
        case 413:
            limit = request.app.request_max_body_size
            return RequestError(
                f"The request body is larger than the {limit} bytes allowed.",
                status=413,
                code="request_too_large",
            )
        case status:
            kind = SERVER_ERROR if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "invalid_request_error"
            return RequestError(error.detail, status=status, kind=kind)
