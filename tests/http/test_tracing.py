"""Spans of real requests: names, nesting, attributes, and what must never be in them."""

import asyncio
import json

import pytest
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
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
            "gen_ai.request.stream": stream,
            "gen_ai.response.model": "scripted",
            "gen_ai.response.id": job.id,
            "gen_ai.request.max_tokens": 9,
            "gen_ai.request.temperature": 0.5,
            "gen_ai.request.top_p": 1.0,
            "gen_ai.request.top_k": 0.0,
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


async def test_the_response_names_the_span_that_answered() -> None:
    """`traceresponse` leads from an answer, a refusal included, to its trace."""
    async with serving() as served:
        answered = await served.answered("Hi")
        refused = await served.post(model="another")
        await served.ended(2)
        spans = [span for span in served.spans.get_finished_spans() if span.name == SERVER]
        for response, span in zip((answered, refused), spans, strict=True):
            context = span.context
            version, trace_id, span_id, flags = response.headers["traceresponse"].split("-")
            assert (version, int(trace_id, 16), int(span_id, 16)) == ("00", context.trace_id, context.span_id)
            assert int(flags, 16) & 1, "recorded"


async def test_a_trace_that_is_not_recorded_is_not_named() -> None:
    """A header that leads nowhere is not sent: the caller said that it records nothing."""
    async with serving() as served:
        request = served.client.post(
            "/v1/chat/completions",
            json={"messages": [{"role": "user", "content": "Hello"}]},
            headers={"traceparent": f"00-{TRACE}-{PARENT}-00"},
        )
        response, _ = await asyncio.gather(request, served.engine.answer("Hi"))
        assert "traceresponse" not in response.headers


async def test_the_request_says_which_jobs_and_which_id_it_had() -> None:
    """The event of a request leads to what the engine did for it; a refused one leads nowhere."""
    async with serving() as served:
        response, job = await asyncio.gather(served.post(), served.engine.answer("Hi"))
        await served.post(model="another")
        answered, refused = await served.ended(2)
        assert answered.job_ids == (job.id,)
        assert answered.request_id == response.headers["x-request-id"]
        assert refused.job_ids == ()


async def test_an_alias_is_what_was_asked_for_and_the_model_what_answered() -> None:
    """The span is named after the model, whatever name a client uses for it."""
    async with serving() as served:
        (alias,) = served.model.aliases
        await served.answered("Hi", model=alias)
        await served.ended()
        attributes = served.span(CHAT).attributes or {}
        assert attributes["gen_ai.request.model"] == alias
        assert attributes["gen_ai.response.model"] == "scripted"


async def test_attributes_are_those_of_the_genai_conventions() -> None:
    """Every `gen_ai` name is one of the conventions' own, with the type that they give it."""
    async with serving(capture_content=True) as served:
        await served.answered("Hi", seed=3, max_tokens=9, tools=[TOOL])
        await served.ended()
        attributes = served.span(CHAT).attributes or {}
    known = {value for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI_")}
    assert {name for name in attributes if name.startswith("gen_ai.")} <= known
    fractions = {"temperature", "top_p", "top_k", "frequency_penalty", "presence_penalty"}
    for name, value in attributes.items():
        last = name.removeprefix("gen_ai.request.")
        if last in fractions:
            assert type(value) is float, name
        elif name.endswith(("tokens", "seed")):
            assert type(value) is int, name


TOOL = {"type": "function", "function": {"name": "weigh", "parameters": {"type": "object"}}}


async def test_content_is_sent_where_it_was_asked_for() -> None:
    """With `capture_content`, prompt, tools and reply are on the chat span, as the conventions shape them."""
    async with serving(capture_content=True) as served:
        call = {"id": "c1", "type": "function", "function": {"name": "weigh", "arguments": '{"what": "tea"}'}}
        await served.answered(
            "⟨Hm⟩Two grams",
            messages=[
                {"role": "user", "content": "How much?"},
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "content": "2 g", "tool_call_id": "c1"},
            ],
            tools=[TOOL],
        )
        await served.ended()
        attributes = served.span(CHAT).attributes or {}

    assert json.loads(str(attributes["gen_ai.input.messages"])) == [
        {"role": "user", "parts": [{"type": "text", "content": "How much?"}]},
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "c1", "name": "weigh", "arguments": '{"what": "tea"}'}],
        },
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "2 g"}]},
    ]
    assert json.loads(str(attributes["gen_ai.output.messages"])) == [
        {
            "role": "assistant",
            "parts": [{"type": "reasoning", "content": "Hm"}, {"type": "text", "content": "Two grams"}],
            "finish_reason": "stop",
        }
    ]
    assert json.loads(str(attributes["gen_ai.tool.definitions"])) == [TOOL]
