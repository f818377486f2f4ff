"""docs/tracing.md and the spans of real requests say the same."""

import asyncio

from opentelemetry.sdk.trace import ReadableSpan

from app.settings.sections.telemetry import Telemetry
from app.telemetry.resource import build_resource
from tests.shape.documents import code, tables_of
from tests.support.scripted_engine import WAIT_SECONDS
from tests.support.serving import Serving, serving
from tests.telemetry.generations import generation
from tests.telemetry.spans_room import SpansRoom

PAGE = "tracing.md"
TYPES = {"string": str, "int": int, "double": float, "bool": bool, "string[]": tuple}
TOOL = {"type": "function", "function": {"name": "weigh", "parameters": {"type": "object"}}}


async def fail(served: Serving) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        await served.engine.fail(await served.engine.next_job(), "the step failed", 500)


async def made() -> dict[str, list[ReadableSpan]]:
    """Spans by kind, of requests in which every attribute of the page comes up."""
    async with serving(capture_content=True) as served:
        await served.answered("Hi", seed=3, tools=[TOOL])
        await asyncio.gather(served.post(), fail(served))
        await served.ended(2)
        spans = served.spans.get_finished_spans()
    room = SpansRoom()
    room.hear(generation(cause=room.request()))
    return {
        "server": [span for span in spans if span.name.startswith("POST ")],
        "chat": [span for span in spans if span.name.startswith("chat ")],
        "decode": [span for span in room.take() if span.name == "decode"],
    }


async def test_every_attribute_of_a_request_is_documented_with_its_span_and_type() -> None:
    """The table is complete in both directions; the store's own attributes are on another page."""
    rows = tables_of(PAGE)["Attribute"]
    documented = {
        (on, code(name)[0]): TYPES[kind] for name, places, kind, _ in rows for on in places.split(", ")
    }
    found = {
        (on, name): type(value)
        for on, spans in (await made()).items()
        for span in spans
        for name, value in (span.attributes or {}).items()
        if not name.startswith("samovar.")
    }
    assert found == documented


def test_every_attribute_of_the_process_is_documented() -> None:
    """What we say of the process is on the page, and nothing else is."""
    documented = {code(name)[0] for name, _ in tables_of(PAGE)["Resource attribute"]}
    built = build_resource(service_name="s", name_is_default=True, version="1", instance_id="i")
    assert {name for name in built.attributes if not name.startswith("telemetry.")} == documented


def test_the_settings_it_names_exist() -> None:
    """Each setting of the table is one of ours."""
    named = {code(name)[0] for name, _ in tables_of(PAGE)["Setting"]}
    assert named <= {f"telemetry.{field}" for field in Telemetry.__struct_fields__}
