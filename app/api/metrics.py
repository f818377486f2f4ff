"""`GET /metrics`: what the metrics renderer makes of the Accept header."""

import asyncio
from typing import Any

from litestar import Request, Response, get
from litestar.di import NamedDependency
from litestar.openapi import ResponseSpec

from app.api.errors import ErrorBody
from app.api.openai.refusals import refused
from app.api.operations import ScrapedOperation
from app.api.services import Services
from app.errors import RequestError


@get(
    "/metrics",
    summary="Prometheus metrics",
    tags=["Operations"],
    media_type="text/plain",
    operation_class=ScrapedOperation,
    responses={
        **refused(401, 403),
        404: ResponseSpec(ErrorBody, description="Metrics are switched off"),
    },
)
async def metrics(request: Request[Any, Any, Any], services: NamedDependency[Services]) -> Response[bytes]:
    """Every series of the server: OpenMetrics where asked for, else Prometheus text."""
    if services.metrics is None:
        raise RequestError("Metrics are switched off (telemetry.metrics).", status=404, code="metrics_off")
    # Hundreds of lines of text take milliseconds to write: tokens of running replies go out in between.
    body, content_type = await asyncio.to_thread(services.metrics, request.headers.get("accept", ""))
    return Response(body, headers={"content-type": content_type})
