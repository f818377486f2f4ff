"""Decodes a JSON body straight into the route's type, strictly. Knows no route."""

import re
from functools import lru_cache
from typing import Any

import msgspec
from litestar import Request
from litestar.exceptions.http_exceptions import InternalServerException

from app.errors import RequestError

_WHERE = re.compile(r"^(?P<what>.*?)(?: - at `\$\.?(?P<path>[^`]*)`)?$", re.DOTALL)
_FIELD = re.compile(r"field `(?P<field>[^`]+)`")


class JsonRequest(Request[Any, Any, Any]):
    """A request whose body must be JSON of exactly the type that its route declares.

    Litestar would decode to plain values and convert those leniently, so that `"5"` passes for 5.
    """

    async def body(self) -> bytes:
        """The body as it came.

        Raises:
            RequestError: 400; the route needs one, and there is none.
            RequestEntityTooLarge: it is longer than the application allows.
        """
        try:
            body = await super().body()
        except InternalServerException as error:
            # Litestar's word for a client that leaves within its own request, which is no failure of ours.
            raise RequestError("The request ended before its body did.", code="incomplete_body") from error
        # Litestar would take it for a body that was left out on purpose, and name our parameter in its error.
        if not body and self.route_handler.parsed_data_field is not None:
            raise RequestError("The request has no body; it needs a JSON object.", code="invalid_json")
        return body

    async def json(self) -> Any:
        """The body as the type of the route's `data`.

        Raises:
            RequestError: 400; it is not JSON, or a field has another type.
        """
        declared = self.route_handler.parsed_data_field
        body = await self.body()
        try:
            return _decoder(declared.annotation if declared else Any).decode(body)
        except msgspec.ValidationError as error:
            raise _wrong_type(str(error)) from error
        except msgspec.DecodeError as error:
            raise RequestError(f"The body is not valid JSON: {error}.", code="invalid_json") from error
        except RecursionError as error:
            raise RequestError("The body is nested too deeply.", code="invalid_json") from error


@lru_cache
def _decoder(body_type: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(body_type)


def _wrong_type(message: str) -> RequestError:
    """The sentence of msgspec, with the path in it as OpenAI's `param`."""
    match = _WHERE.match(message)
    what, path = (match["what"], match["path"] or "") if match else (message, "")
    # A missing field is named in the sentence, and the path is only that of the object it is missing from.
    if field := _FIELD.search(what):
        path = f"{path}.{field['field']}" if path else field["field"]
    # msgspec does not say which element of a list it was.
    path = path.replace("[...]", "[]")
    where = f"{path}: " if path else ""
    return RequestError(f"{where}{what}.", param=path or None, code="invalid_type")
