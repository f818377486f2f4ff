"""How OpenAI's routes refuse, for the schema: one list for all of them."""

from collections.abc import Mapping

from litestar.openapi import ResponseSpec

from app.api.errors import ErrorBody
from app.api.refusal_reasons import REFUSAL_REASONS

REFUSALS = {status: ResponseSpec(ErrorBody, description=reason) for status, reason in REFUSAL_REASONS.items()}


def refused(*statuses: int) -> Mapping[int, ResponseSpec]:
    """Those of a route that refuses with fewer; that it fails can happen to each."""
    return {status: REFUSALS[status] for status in (*statuses, 500)}
