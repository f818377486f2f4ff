"""Spans of real requests: names, nesting, attributes, and what must never be in them."""

import asyncio

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from app.events import TraceRef
from tests.support.serving import serving

SERVER = "POST /v1/chat/completions"
CHAT = "chat scripted"
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.mark.parametrize("stream", [False, True])
async def test_request_is_a_server_span_with_a_chat_span_in_it(stream: bool) -> None:
    """The HTTP span has the stable conventions' attributes, the chat span in it those of GenAI."""
    async with serving() as served:
        _, job = await asyncio.gather(
            served.post(stream=stream, temperature=0.5, max_tokens=9, seed=3),
            served.engine.answer("Hi", cached_tokens=5, miss=None),
        )
        await served.ended()

        server, chat = served.span(SERVER), served.span(CHAT)
        assert server.kind is SpanKind.SERVER
        assert server.parent is None
        assert server.attributes is not None
        assert server.attributes["http.request.method"] == "POST"
        assert server.attributes["http.route"] == "/v1/chat/completions"
        assert server.attributes["http.response.status_code"] == 200
        assert server.attributes["url.path"] == "/v1/chat/completions"
        assert server.status.status_code is StatusCode.UNSET
        assert chat.kind is SpanKind.INTERNAL
        assert chat.parent is not None
        assert chat.parent.span_id == server.context.span_id
        assert dict(chat.attributes or {}) == {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "samovar",
            "gen_ai.request.model": "scripted",
            "gen_ai.response.id": job.id,
            "gen_ai.request.max_tokens": 9,
            "gen_ai.request.temperature": 0.5,
            "gen_ai.request.top_p": 1.0,
            "gen_ai.request.top_k": 0,
            "gen_ai.request.frequency_penalty": 0.0,
            "gen_ai.request.presence_penalty": 0.0,
            "gen_ai.request.seed": 3,
            "gen_ai.usage.input_tokens": len("user: Hello\n"),
            "gen_ai.usage.output_tokens": 3,
            "gen_ai.usage.cache_read.input_tokens": 5,
            "gen_ai.response.finish_reasons": ("stop",),
        }


async def test_job_carries_the_chat_span() -> None:
    """What the engine reports under the job's trace becomes a child of the chat span."""
    async with serving() as served:
        _, job = await asyncio.gather(served.post(), served.engine.answer("Hi"))
        await served.ended()

        context = served.span(CHAT).context
        assert job.trace == TraceRef(context.trace_id, context.span_id, sampled=True)


@pytest.mark.parametrize("sampled", [True, False])
async def test_callers_trace_is_continued(sampled: bool) -> None:
    """A `traceparent` of the caller gives the trace, the parent and the decision whether to record."""
    async with serving() as served:
        request = served.client.post(
            "/v1/chat/completions",
            json={"messages": [{"role": "user", "content": "Hello"}]},
            headers={"traceparent": f"00-{TRACE}-{PARENT}-0{int(sampled)}"},
        )
        _, job = await asyncio.gather(request, served.engine.answer("Hi"))
        await served.ended()

        assert job.trace is not None
        assert job.trace.trace_id == int(TRACE, 16)
        assert job.trace.sampled is sampled
        if sampled:
            parent = served.span(SERVER).parent
            assert parent is not None
            assert parent.span_id == int(PARENT, 16)
        else:
            assert served.spans.get_finished_spans() == ()


async def test_probes_and_metrics_make_no_spans() -> None:
    """What is asked every few seconds leaves no trace; the routes of the API do."""
    async with serving() as served:
        for path in ("/livez", "/readyz", "/startupz", "/metrics", "/", "/docs"):
            await served.client.get(path)
        assert served.spans.get_finished_spans() == ()
        await served.client.get("/v1/models/scripted")

        span = served.span("GET /v1/models/{name}")
        assert span.attributes is not None
        assert span.attributes["url.path"] == "/v1/models/scripted"


async def test_refusals_are_not_faults_and_faults_are() -> None:
    """A 4xx leaves the span's status alone; a job that failed marks both spans as errors."""
    async with serving() as served:
        await served.post(model="another")
        refused = served.span(SERVER)
        assert refused.status.status_code is StatusCode.UNSET
        assert refused.attributes is not None
        assert refused.attributes["http.response.status_code"] == 404
        served.spans.clear()

        async def fail() -> None:
            await served.engine.fail(await served.engine.next_job(), "the step failed", 500)

        await asyncio.gather(served.post(), fail())
        await served.ended(2)
        for span in (served.span(SERVER), served.span(CHAT)):
            assert span.status.status_code is StatusCode.ERROR
            assert span.attributes is not None
            assert span.attributes["error.type"] == "500"


async def test_client_that_left_still_ends_its_spans() -> None:
    """A request without an answer has both spans, with what was generated until then."""
    async with serving() as served:
        client = await served.sockets.connect()
        await client.post()
        job = await served.engine.next_job()
        await served.engine.start(job)
        await served.engine.say(job, "half")
        await client.leave()
        await served.ended()

        chat = served.span(CHAT)
        assert chat.attributes is not None
        assert "gen_ai.response.finish_reasons" not in chat.attributes
        assert served.span(SERVER).status.status_code is StatusCode.UNSET


async def test_no_text_of_prompt_or_reply_is_in_a_span() -> None:
    """Neither names nor attributes nor events hold a word of the conversation or the session's name."""
    async with serving() as served:
        await served.answered(
            "secret-reply",
            messages=[{"role": "user", "content": "secret-prompt"}],
            stop=["secret-stop"],
            prompt_cache_key="secret-session",
        )
        await served.ended()

        told = "".join(span.to_json() for span in served.spans.get_finished_spans())
        assert "gen_ai" in told
        assert "secret" not in told
