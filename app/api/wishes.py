"""What a request says its reply has to be: its format, and which tools are to be called. Knows no API.

The forms are those that OpenAI's APIs share.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.api.ports import ReplySchema
from app.errors import RequestError

_ANY_OBJECT: Mapping[str, Any] = {"type": "object"}
_CHOICE = "tool_choice"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallWish:
    """Whether tools may be called, whether one has to be, and which one alone; None for any."""

    forbidden: bool = False
    must: bool = False
    only: str | None = None


def reply_schema(kind: str, schema: Mapping[str, Any] | None, *, field: str) -> ReplySchema | None:
    """The schema of the reply's text; None where it may be any text.

    Args:
        kind: of the format, as clients write it.
        schema: what came with it.
        field: where the client asked for it.

    Raises:
        RequestError: a kind that is not served, or no schema where there has to be one.
    """
    match kind:
        case "text":
            return None
        case "json_object":
            return ReplySchema(_ANY_OBJECT, field)
        case "json_schema" if schema is not None:
            return ReplySchema(schema, field)
        case "json_schema":
            raise RequestError(f"{field}: a format of type 'json_schema' needs a schema.", param=field)
    raise RequestError(
        f"{field}.type: '{kind}' is not served, only 'text', 'json_object' and 'json_schema'.", param=field
    )


def call_wish(choice: str | Mapping[str, Any] | None) -> CallWish:
    """What `tool_choice` asks for.

    Raises:
        RequestError: it is none of the forms that are served.
    """
    match choice:
        case None | "auto":
            return CallWish()
        case "none":
            return CallWish(forbidden=True)
        case "required":
            return CallWish(must=True)
        case {"type": "function", "function": {"name": str(name)}} | {"type": "function", "name": str(name)}:
            return CallWish(must=True, only=name)
    raise RequestError(
        f"{_CHOICE}: only 'none', 'auto', 'required' and a function by its name are served.", param=_CHOICE
    )
