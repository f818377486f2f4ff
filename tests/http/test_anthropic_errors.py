"""Anthropic's Messages API where a request is not served: its official client raises its own errors."""

import asyncio
from typing import Any

import anthropic
import pytest

from app.api.ports import Phase
from app.auth.keyring import Keyring
from app.errors import RequestError
from app.vocabulary import Outcome
from tests.support.keys import KEYS, SECRETS
from tests.support.messages_client import HELLO, client_of
from tests.support.scripted_engine import UNRENDERABLE, WAIT_SECONDS
from tests.support.serving import serving


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"messages": []}, anthropic.BadRequestError),
        ({"messages": [{"role": "narrator", "content": "Hi"}]}, anthropic.BadRequestError),
        ({"messages": [{"role": "user", "content": UNRENDERABLE}]}, anthropic.BadRequestError),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, anthropic.BadRequestError),
        (
            {"messages": [{"role": "assistant", "content": [{"type": "server_tool_use"}]}]},
            anthropic.BadRequestError,
        ),
        ({"max_tokens": 0}, anthropic.BadRequestError),
        ({"temperature": 1.5}, anthropic.BadRequestError),
        ({"tool_choice": {"type": "some"}}, anthropic.BadRequestError),
        ({"stop_sequences": [""]}, anthropic.BadRequestError),
        ({"model": "other"}, anthropic.NotFoundError),
    ],
)
async def test_a_refusal_is_anthropics_own_error(fields: Any, error: type[anthropic.APIStatusError]) -> None:
    """The client raises its error for the status, with the kind and a sentence; the request was invalid."""
    async with serving() as served:
        async with client_of(served) as client:
            with pytest.raises(error) as refused:
                await client.messages.create(
                    model="scripted", max_tokens=9, messages=HELLO, extra_body=fields
                )
        (event,) = await served.ended()

    body: Any = refused.value.body
    kinds = {400: "invalid_request_error", 404: "not_found_error"}
    assert body["type"] == "error"
    assert body["error"]["type"] == kinds[refused.value.status_code]
    assert body["error"]["message"]
    assert body["request_id"] == refused.value.response.headers["x-request-id"]
    assert event.outcome is Outcome.INVALID


async def test_a_full_queue_is_told_and_the_client_tries_again_by_itself() -> None:
    """With its default retries the official client gets its reply, once there is room."""
    async with serving() as served, client_of(served, max_retries=2) as client:
        served.engine.refusal = RequestError("full", status=429, code="queue_full", retry_after_seconds=0)
        asked = asyncio.create_task(client.messages.create(model="scripted", max_tokens=9, messages=HELLO))
        async with asyncio.timeout(WAIT_SECONDS):
            while not served.events:
                await asyncio.sleep(0.005)
        served.engine.refusal = None
        await served.engine.answer("Hi")
        message = await asked

    assert [block.type == "text" and block.text for block in message.content] == ["Hi"]


async def test_a_client_without_the_right_key_is_told_in_its_own_words() -> None:
    """The official client sends its key as `x-api-key`, and raises its own error where it is none."""
    async with serving(keyring=Keyring(KEYS)) as served:
        async with client_of(served) as client:
            with pytest.raises(anthropic.AuthenticationError) as refused:
                await client.messages.create(model="scripted", max_tokens=9, messages=HELLO)
        async with client_of(served, api_key=SECRETS["ann"]) as client:
            message, _ = await asyncio.gather(
                client.messages.create(model="scripted", max_tokens=9, messages=HELLO),
                served.engine.answer("Hi"),
            )

    body: Any = refused.value.body
    assert body["error"]["type"] == "authentication_error"
    assert message.stop_reason == "end_turn"


async def test_a_busy_server_is_overloaded() -> None:
    """A server that takes no requests says so in Anthropic's word, and when to ask again."""
    async with serving() as served, client_of(served) as client:
        served.engine.phase, served.engine.reason = Phase.DRAINING, "the server is shutting down"
        with pytest.raises(anthropic.InternalServerError) as refused:
            await client.messages.create(model="scripted", max_tokens=9, messages=HELLO)

    body: Any = refused.value.body
    assert body["error"]["type"] == "overloaded_error"
    assert refused.value.response.headers["retry-after"]


async def test_what_breaks_off_a_stream_is_an_event() -> None:
    """The client raises what the server says went wrong, and the request has failed."""
    async with serving() as served:
        async with client_of(served) as client:

            async def read() -> None:
                async with client.messages.stream(model="scripted", max_tokens=9, messages=HELLO) as stream:
                    await stream.until_done()

            async def fail() -> None:
                job = await served.engine.next_job()
                await served.engine.start(job)
                await served.engine.say(job, "Hi")
                await served.engine.fail(job, "the step failed", 500)

            with pytest.raises(anthropic.APIStatusError, match="the step failed") as broken:
                await asyncio.gather(read(), fail())
        (event,) = await served.ended()

    body: Any = broken.value.body
    assert body["error"]["type"] == "api_error"
    assert event.outcome is Outcome.FAILED


async def test_a_client_that_waits_no_longer_frees_its_place() -> None:
    """The official client's timeout ends the job."""
    async with serving() as served, client_of(served, timeout=0.2) as client:
        with pytest.raises(anthropic.APITimeoutError):
            await client.messages.create(model="scripted", max_tokens=9, messages=HELLO)
        await served.engine.until_cancelled(await served.engine.next_job())
