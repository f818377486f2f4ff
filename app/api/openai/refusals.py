"""How OpenAI's routes refuse, for the schema: one list for all of them."""

from litestar.openapi import ResponseSpec

from app.api.errors import ErrorBody

REFUSALS = {
    400: ResponseSpec(ErrorBody, description="The request cannot be served as asked"),
    401: ResponseSpec(ErrorBody, description="An API key is needed"),
    403: ResponseSpec(ErrorBody, description="The API key may not do this"),
    404: ResponseSpec(ErrorBody, description="Another model was asked for"),
    429: ResponseSpec(ErrorBody, description="Too many requests, of all or of this key; see Retry-After"),
    503: ResponseSpec(ErrorBody, description="Loading, draining or failed; see Retry-After"),
}
