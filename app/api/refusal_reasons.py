"""The statuses with which a route of the model refuses, and why, for the schema. Knows no error's shape."""

from collections.abc import Mapping

REFUSAL_REASONS: Mapping[int, str] = {
    400: "The request cannot be served as asked",
    401: "An API key is needed, and there is none, or an unknown one",
    403: "The API key may not do this",
    404: "Another model was asked for",
    413: "The request is larger than the server takes",
    429: "Too many requests, of all or of this key; see Retry-After",
    500: "The server failed on this request; it can be sent again",
    503: "Loading, draining or failed; see Retry-After",
    504: "The request took longer than it may",
}
