"""What the schema says of an operation besides the one content type that Litestar finds for it."""

from dataclasses import dataclass

from litestar.openapi.spec import OpenAPIMediaType, OpenAPIResponse, Operation, Schema
from litestar.openapi.spec.enums import OpenAPIType


def _text(description: str) -> Schema:
    return Schema(type=OpenAPIType.STRING, description=description)


_EVENT = Schema(
    type=OpenAPIType.OBJECT,
    description="One server-sent event",
    properties={
        "event": _text("What it tells of, where the API names its events"),
        "data": _text("JSON, or [DONE] where the API ends its streams so"),
    },
    required=["data"],
)


@dataclass
class StreamedOperation(Operation):
    """An operation whose answer is JSON, or with `stream` server-sent events."""

    def __post_init__(self) -> None:
        """Add the second."""
        _add(self, "text/event-stream", _EVENT)


@dataclass
class ScrapedOperation(Operation):
    """An operation whose answer is Prometheus text, or OpenMetrics where that is asked for."""

    def __post_init__(self) -> None:
        """Add the second."""
        _add(self, "application/openmetrics-text", _text("OpenMetrics, with exemplars"))


@dataclass
class PageOperation(Operation):
    """An operation whose answer is JSON, or a page for whoever accepts HTML."""

    def __post_init__(self) -> None:
        """Add the second."""
        _add(self, "text/html", _text("A page of what the server does"))


def _add(operation: Operation, content_type: str, schema: Schema) -> None:
    answer = (operation.responses or {})["200"]
    assert isinstance(answer, OpenAPIResponse), "Litestar describes answers in place"
    assert answer.content is not None, "the operation answers with something"
    answer.content[content_type] = OpenAPIMediaType(schema=schema)
