"""The routes of operators: probes, models, cache, metrics, pages."""

import re

import pytest

from app.api.application import INFERENCE_ROUTES
from app.api.ports import Phase
from tests.support.serving import cache_numbers, serving


@pytest.mark.parametrize(
    ("phase", "live", "ready", "started"),
    [
        (Phase.LOADING, 200, 503, 503),
        (Phase.READY, 200, 200, 200),
        (Phase.DRAINING, 200, 503, 200),
        (Phase.STALLED, 503, 503, 200),
        (Phase.FAILED, 503, 503, 503),
    ],
)
async def test_probes_answer_three_questions(phase: Phase, live: int, ready: int, started: int) -> None:
    """Live: no restart is needed. Ready: a request is taken. Started: the load is over. Each says why not."""
    async with serving() as served:
        served.engine.phase, served.engine.reason = phase, "because"

        for path, status in (("/livez", live), ("/readyz", ready), ("/startupz", started)):
            response = await served.client.get(path)
            assert response.status_code == status
            assert response.json() == {
                "ok": status == 200,
                "phase": phase,
                "reason": "because",
                "running": 2,
                "waiting": 3,
            }


async def test_models_are_listed_and_described() -> None:
    """The one model is in the list, and is found by its name and by its alias with a slash."""
    card = {
        "id": "scripted",
        "object": "model",
        "created": 1_700_000_000,
        "owned_by": "samovar",
        "context_length": 4096,
        "aliases": ["owner/scripted-hub-name"],
        "type": "model",
        "display_name": "scripted",
        "created_at": "2023-11-14T22:13:20+00:00",
    }
    async with serving() as served:
        assert (await served.client.get("/v1/models")).json() == {
            "object": "list",
            "data": [card],
            "has_more": False,
            "first_id": "scripted",
            "last_id": "scripted",
        }
        for name in ("scripted", "owner/scripted-hub-name"):
            assert (await served.client.get(f"/v1/models/{name}")).json() == card


async def test_models_are_unavailable_while_loading() -> None:
    """Before the model is loaded nothing is known of it: 503 with Retry-After, not an empty list."""
    async with serving(loading=True) as served:
        response = await served.client.get("/v1/models")

        assert response.status_code == 503
        assert response.headers["retry-after"]


async def test_cache_is_shown_and_emptied() -> None:
    """The stats are what the wiring gives; a reset says what it freed, with 200 and not 201."""
    async with serving() as served:
        stats = (await served.client.get("/v1/cache/stats")).json()
        assert stats == cache_numbers(None)
        response = await served.client.post("/v1/cache/reset")

        assert response.status_code == 200
        assert response.json() == {"cleared": True, "freed_entries": 3, "freed_bytes": 4096}
        assert served.engine.resets == [None]


async def test_metrics_come_in_the_format_asked_for() -> None:
    """The renderer decides from the Accept header, and its content type is sent as it is."""
    async with serving() as served:
        response = await served.client.get("/metrics", headers={"accept": "application/openmetrics-text"})

        assert response.text == "accepted application/openmetrics-text\n"
        assert response.headers["content-type"] == "text/x-metrics"


async def test_metrics_switched_off_are_said_to_be() -> None:
    """Without a renderer the route is a 404 that names the setting."""
    async with serving(metrics=False) as served:
        response = await served.client.get("/metrics")

        assert response.status_code == 404
        assert "telemetry.metrics" in response.json()["error"]["message"]


@pytest.mark.parametrize("loading", [False, True])
async def test_index_points_to_routes_that_exist(loading: bool) -> None:
    """Every address on the first page is served (or takes a POST), also before the model is loaded."""
    async with serving(loading=loading) as served:
        index = (await served.client.get("/")).json()

        assert index["model"] == (None if loading else "scripted")
        for path in (value for value in index.values() if str(value).startswith("/")):
            assert (await served.client.get(path)).status_code in {200, 405, 503}


async def test_docs_page_lists_every_route_and_needs_no_other_host() -> None:
    """The page names each path and method of the document, each field of a request, and loads nothing."""
    async with serving() as served:
        page = await served.client.get("/docs")
        document = (await served.client.get("/docs/openapi.json")).json()

        assert page.headers["content-type"].startswith("text/html")
        for path, operations in document["paths"].items():
            assert path in page.text
            assert all(method.upper() in page.text for method in operations)
        fields = document["components"]["schemas"]["ChatRequest"]["properties"]
        assert "prompt_cache_key" in fields
        assert all(f"<code>{field}</code>" in page.text for field in fields)
        assert not re.search(r"<script|https?://|//cdn|@import", page.text)


async def test_every_inference_route_is_a_route() -> None:
    """The routes that metrics count one by one are real ones, and all POSTs that infer are among them."""
    async with serving() as served:
        document = (await served.client.get("/docs/openapi.json")).json()

        inferring = {path for path, operations in document["paths"].items() if "post" in operations}
        generating_nothing = {
            "/v1/cache/reset",
            "/v1/messages/count_tokens",
            "/v1/tokenize",
            "/v1/detokenize",
            "/v1/apply-template",
        }
        assert inferring - generating_nothing == set(INFERENCE_ROUTES)
