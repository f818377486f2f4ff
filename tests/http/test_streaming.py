"""Chat completions as event streams over a real listener: order, cadence, keep-alives, ends."""

import asyncio
import json
from typing import Any

import pytest
from openai import APIError, AsyncOpenAI

from app.vocabulary import FinishReason, Miss, Outcome
from tests.support.clock import ManualClock
from tests.support.scripted_engine import ANSWER, END_OF_TURN, THINK
from tests.support.serving import Serving, serving

HELLO: Any = [{"role": "user", "content": "Hello"}]


def openai(served: Serving) -> AsyncOpenAI:
    """The official client, without retries of its own."""
    return AsyncOpenAI(base_url=f"{served.url}/v1", api_key="unused", max_retries=0, timeout=10)


def events(body: str) -> list[Any]:
    """The data of each event; `[DONE]` as it stands."""
    datas = [event.removeprefix("data: ") for event in body.split("\n\n") if event.startswith("data: ")]
    return [data if data == "[DONE]" else json.loads(data) for data in datas]


async def test_official_client_reads_a_stream() -> None:
    """OpenAI's own client gets the role first, then text, then the reason, then the usage."""
    async with serving() as served, openai(served) as client:
        stream, _ = await asyncio.gather(
            client.chat.completions.create(
                model="scripted",
                messages=HELLO,
                stream=True,
                stream_options={"include_usage": True},
            ),
            served.engine.answer(f"{THINK}hm{ANSWER}Hi", cached_tokens=5, miss=None),
        )
        chunks = [chunk async for chunk in stream]

        opening, *text, closing, usage = chunks
        assert opening.choices[0].delta.role == "assistant"
        assert [chunk.choices[0].delta.to_dict() for chunk in text] == [
            {"reasoning_content": "hm"},
            {"content": "Hi"},
        ]
        assert closing.choices[0].finish_reason == "stop"
        assert usage.choices == []
        assert usage.usage is not None
        assert usage.usage.prompt_tokens_details is not None
        assert usage.usage.prompt_tokens_details.cached_tokens == 5
        assert len({chunk.id for chunk in chunks}) == 1


async def test_stream_ends_with_done_and_has_usage_only_if_asked() -> None:
    """The last event is `[DONE]`; no chunk has usage unless the client asked for it."""
    async with serving() as served:
        response = await served.answered("Hi", stream=True)

        *chunks, done = events(response.text)
        assert done == "[DONE]"
        assert all("usage" not in chunk for chunk in chunks)
        assert response.headers["content-type"].startswith("text/event-stream")


async def test_text_is_sent_as_it_is_generated() -> None:
    """Each step's text reaches the client before the next step happens."""
    async with serving() as served:
        client = await served.sockets.connect()
        await client.post(stream=True)
        job = await served.engine.next_job()
        await served.engine.start(job)
        for step in ("one ", "two ", "three "):
            await served.engine.say(job, step)
            assert step.encode() in await client.read_until(step.encode())
        await served.engine.say(job, END_OF_TURN, finish=FinishReason.STOP)
        await client.read_until(b"data: [DONE]\n\n")
        await client.leave()


async def test_tokens_queued_at_once_are_one_chunk() -> None:
    """A reader that comes late, or a step with many tokens, makes one chunk and not one a token."""
    async with serving() as served:
        response = await served.answered("many tokens at once", stream=True)

        contents = [chunk["choices"][0]["delta"].get("content") for chunk in events(response.text)[:-1]]
        assert contents == ["", "many tokens at once", None]


async def test_silent_stream_is_kept_alive_before_and_after_it_starts() -> None:
    """While a request waits, is prefilled or is blocked, comments come at the given interval."""
    async with serving(keepalive_seconds=0.05) as served:
        client = await served.sockets.connect()
        await client.post(stream=True)
        job = await served.engine.next_job()
        for _ in range(2):
            await client.read_until(b": keep-alive\n\n")
        await served.engine.start(job)
        await served.engine.say(job, "Hi")
        await client.read_until(b'"Hi"')
        for _ in range(2):
            await client.read_until(b": keep-alive\n\n")
        await served.engine.say(job, END_OF_TURN, finish=FinishReason.STOP)
        await client.read_until(b"data: [DONE]\n\n")
        await client.leave()


async def test_official_client_skips_keep_alives() -> None:
    """Comments between events do not reach a client's reader."""
    async with serving(keepalive_seconds=0.02) as served, openai(served) as client:
        asking = asyncio.create_task(
            client.chat.completions.create(model="scripted", messages=HELLO, stream=True)
        )
        job = await served.engine.next_job()
        # The response begins with the first keep-alive: the engine has not said a word yet.
        stream = await asking
        await served.engine.start(job)
        await served.engine.say(job, "Hi" + END_OF_TURN, finish=FinishReason.STOP)

        text = [chunk.choices[0].delta.content async for chunk in stream]
        assert "".join(part or "" for part in text) == "Hi"


async def test_refusal_before_the_first_byte_has_its_status() -> None:
    """A stream whose job fails before it starts is answered with the failure's status, as JSON."""
    async with serving() as served:

        async def fail() -> None:
            await served.engine.fail(await served.engine.next_job(), "no memory for this prompt", 503)

        response, _ = await asyncio.gather(served.post(stream=True), fail())

        assert response.status_code == 503
        assert response.json()["error"]["message"] == "no memory for this prompt"
        assert response.headers["retry-after"]
        (event,) = await served.ended()
        assert (event.outcome, event.status) == (Outcome.FAILED, 503)


async def test_failure_after_the_first_byte_is_an_error_event() -> None:
    """A stream that breaks says so in its last event, without `[DONE]`, and its connection stays usable."""
    async with serving() as served:

        async def break_off() -> None:
            job = await served.engine.next_job()
            await served.engine.start(job)
            await served.engine.say(job, "Hi")
            await served.engine.fail(job, "the step failed", 500)

        response, _ = await asyncio.gather(served.post(stream=True), break_off())

        assert response.status_code == 200
        last = events(response.text)[-1]
        assert last == {
            "error": {"message": "the step failed", "type": "server_error", "param": None, "code": None}
        }
        (event,) = await served.ended()
        assert (event.outcome, event.status) == (Outcome.FAILED, 200)
        assert (await served.client.get("/livez")).status_code == 200


async def test_official_client_raises_a_broken_streams_error() -> None:
    """OpenAI's own client turns the error event into an exception with our message."""
    async with serving() as served, openai(served) as client:

        async def break_off() -> None:
            job = await served.engine.next_job()
            await served.engine.start(job, miss=Miss.EMPTY)
            await served.engine.fail(job, "the step failed", 500)

        stream, _ = await asyncio.gather(
            client.chat.completions.create(model="scripted", messages=HELLO, stream=True), break_off()
        )
        with pytest.raises(APIError, match="the step failed"):
            [chunk async for chunk in stream]


async def test_whole_reply_that_takes_too_long_is_a_504() -> None:
    """Past `request_seconds` the job is cancelled and the client told how long it was allowed."""
    async with serving(request_seconds=0.2) as served:
        asking = asyncio.create_task(served.post())
        job = await served.engine.next_job()
        response = await asking

        assert job.id in served.engine.cancelled
        assert response.status_code == 504
        assert "0.2 seconds" in response.json()["error"]["message"]
        (event,) = await served.ended()
        assert event.outcome is Outcome.FAILED


async def test_stream_that_takes_too_long_ends_with_an_error() -> None:
    """Past `request_seconds` a stream that has begun is cancelled and says so in its last event."""
    clock = ManualClock()
    async with serving(request_seconds=60, keepalive_seconds=0.05, clock=clock) as served:
        client = await served.sockets.connect()
        await client.post(stream=True)
        job = await served.engine.next_job()
        await served.engine.start(job)
        await client.read_until(b'"role":"assistant"')
        clock.advance(60)

        assert b"60 seconds" in await client.read_until(b"0\r\n\r\n")
        await served.engine.until_cancelled(job)
        (event,) = await served.ended()
        assert (event.outcome, event.status) == (Outcome.FAILED, 200)
