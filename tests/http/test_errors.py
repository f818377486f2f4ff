"""What a client is told when its request cannot be served: status, shape of the error, the field at fault."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.api.ports import Phase, PreparedPrompt
from app.errors import RequestError
from app.vocabulary import Outcome
from tests.support.scripted_engine import UNRENDERABLE, CharacterModel
from tests.support.serving import MAX_REQUEST_BYTES, serving

CHAT = "/v1/chat/completions"
USER: Any = {"role": "user", "content": "Hello"}


def error_of(body: str) -> dict[str, Any]:
    """The error, which has exactly OpenAI's fields."""
    (error,) = json.loads(body).values()
    assert set(error) == {"message", "type", "param", "code"}
    assert "Traceback" not in body
    fields: dict[str, Any] = error
    return fields


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ("", None),
        ("{", None),
        ("nonsense", None),
        ("null", None),
        ("[]", None),
        ("{}", "messages"),
        (json.dumps({"messages": []}), "messages"),
        (json.dumps({"messages": "Hello"}), "messages"),
        (json.dumps({"messages": [{"content": "Hello"}]}), "messages[0].role"),
        (json.dumps({"messages": [{"role": "narrator"}]}), "messages[0].role"),
        (json.dumps({"messages": [{"role": "user", "content": 5}]}), "messages[0].content"),
        (json.dumps({"messages": [USER], "max_tokens": "5"}), "max_tokens"),
        (json.dumps({"messages": [USER], "max_tokens": 0}), "max_tokens"),
        (json.dumps({"messages": [USER], "temperature": 2.1}), "temperature"),
        (json.dumps({"messages": [USER], "temperature": True}), "temperature"),
        (json.dumps({"messages": [USER], "top_p": 0}), "top_p"),
        (json.dumps({"messages": [USER], "stop": ["a", "b", "c", "d", "e"]}), "stop"),
        (json.dumps({"messages": [USER], "top_logprobs": 21, "logprobs": True}), "top_logprobs"),
        (json.dumps({"messages": [USER], "stream": "yes"}), "stream"),
        (json.dumps({"messages": [USER], "n": 17}), "n"),
        (json.dumps({"messages": [USER], "logit_bias": {"x": 1}}), "logit_bias"),
        (json.dumps({"messages": [USER], "user": "u" * 513}), "user"),
        (json.dumps({"messages": [{"role": "user", "content": UNRENDERABLE}]}), "messages"),
        (
            json.dumps({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}),
            "messages[0].content[0]",
        ),
    ],
)
async def test_request_that_is_wrong_is_told_where(body: str, param: str | None) -> None:
    """A body that is not JSON, or a field of the wrong type or out of bounds, is a 400 naming the field."""
    async with serving() as served:
        response = await served.client.post(CHAT, content=body.encode())

        assert response.status_code == 400
        error = error_of(response.text)
        assert error["param"] == param
        assert error["type"] == "invalid_request_error"
        assert error["message"]
        assert not served.engine.has_job
        (event,) = await served.ended()
        assert (event.route, event.outcome, event.status) == (CHAT, Outcome.INVALID, 400)


async def test_unknown_fields_are_ignored() -> None:
    """Clients send more than any one server knows."""
    async with serving() as served:
        response = await served.answered("Hi", store=False, metadata={"a": "b"}, service_tier="auto")
        assert response.status_code == 200


async def test_prompt_longer_than_the_context_is_told_both_numbers() -> None:
    """A prompt that fills the context is a 400 with OpenAI's code, its length and the limit."""
    async with serving(model=CharacterModel(context_length=12)) as served:
        response = await served.post()

        error = error_of(response.text)
        assert response.status_code == 400
        assert error["code"] == "context_length_exceeded"
        assert "12 tokens; this model's context is 12 tokens" in error["message"]


async def test_unknown_model_is_told_which_one_is_served() -> None:
    """Another model is a 404 with OpenAI's code, on the chat route and in the list of models."""
    async with serving() as served:
        for response in (await served.post(model="gpt-4"), await served.client.get("/v1/models/owner/gpt")):
            error = error_of(response.text)
            assert response.status_code == 404
            assert error["code"] == "model_not_found"
            assert "'scripted'" in error["message"]
        (event,) = await served.ended()
        assert event.outcome is Outcome.INVALID


async def test_body_that_is_too_large_is_refused() -> None:
    """A body over the limit is a 413 that names the limit; one just below it is read."""
    async with serving() as served:
        padding = MAX_REQUEST_BYTES - len(json.dumps({"messages": [], "user": ""}))
        large = await served.client.post(
            CHAT, content=json.dumps({"messages": [], "user": "u" * (padding + 1)})
        )
        fits = await served.client.post(CHAT, content=json.dumps({"messages": [], "user": "u" * padding}))

        assert large.status_code == 413
        assert str(MAX_REQUEST_BYTES) in error_of(large.text)["message"]
        assert fits.status_code == 400
        events = await served.ended(2)
        assert {event.outcome for event in events} == {Outcome.INVALID}


async def test_client_that_still_sends_gets_to_read_the_refusal() -> None:
    """A body many times too large, of known or unknown length, is read on until its client has the answer."""

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(64):
            yield b"x" * MAX_REQUEST_BYTES

    async with serving() as served:
        for content in (b"x" * (64 * MAX_REQUEST_BYTES), chunks()):
            response = await served.client.post(CHAT, content=content)
            assert response.status_code == 413


@pytest.mark.parametrize("path", ["/nothing", "/v1/nothing", "/v1", "/v1/chat"])
async def test_unknown_route_is_a_404_in_the_same_shape(path: str) -> None:
    """A path that does not exist says so like any other error, and makes no inference event."""
    async with serving() as served:
        response = await served.client.post(path, json={})

        assert response.status_code == 404
        assert path in error_of(response.text)["message"]
        await served.ended(0)


async def test_wrong_method_is_told_the_right_ones() -> None:
    """A known path with another method is a 405 with Allow."""
    async with serving() as served:
        for method, path, allowed in (("GET", CHAT, "POST"), ("POST", "/v1/cache/stats", "GET")):
            response = await served.client.request(method, path)

            assert response.status_code == 405
            assert allowed in response.headers["allow"]
            error_of(response.text)


@pytest.mark.parametrize("stream", [False, True])
async def test_full_queue_is_a_429_that_says_when_to_retry(stream: bool) -> None:
    """The engine's refusal reaches the client with its status and Retry-After, also for a stream."""
    async with serving() as served:
        served.engine.refusal = RequestError(
            "the queue is full", status=429, kind="rate_limit_error", code="queue_full", retry_after_seconds=3
        )
        response = await served.post(stream=stream)

        assert response.status_code == 429
        assert response.headers["retry-after"] == "3"
        assert error_of(response.text)["code"] == "queue_full"
        (event,) = await served.ended()
        assert event.outcome is Outcome.REFUSED


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.READY])
async def test_engine_that_is_not_ready_refuses_at_once(phase: Phase) -> None:
    """Loading, draining, stalled or failed: 503 with Retry-After, and no prompt is prepared for nothing."""
    async with serving() as served:
        served.engine.phase, served.engine.reason = phase, "because"
        response = await served.post()

        assert response.status_code == 503
        assert int(response.headers["retry-after"]) > 0
        assert "because" in error_of(response.text)["message"]
        assert served.model.prepared == []
        (event,) = await served.ended()
        assert event.outcome is Outcome.REFUSED


class BrokenModel(CharacterModel):
    """Fails in a way nobody foresaw."""

    def prepare(self, *args: Any, **kwargs: Any) -> PreparedPrompt:
        raise RuntimeError("the secret of the inside")


async def test_fault_of_the_server_is_a_500_without_its_inside(caplog: pytest.LogCaptureFixture) -> None:
    """An unforeseen exception is logged in full and told in general."""
    async with serving(model=BrokenModel()) as served:
        response = await served.post()

        assert response.status_code == 500
        assert "secret" not in response.text
        assert error_of(response.text)["type"] == "server_error"
        assert "the secret of the inside" in caplog.text
        (event,) = await served.ended()
        assert event.outcome is Outcome.FAILED


async def test_job_that_fails_keeps_its_status() -> None:
    """A whole reply whose job fails is answered with the failure's status and message."""
    async with serving() as served:

        async def fail() -> None:
            await served.engine.fail(await served.engine.next_job(), "the step failed", 500)

        response, _ = await asyncio.gather(served.post(), fail())

        assert response.status_code == 500
        assert error_of(response.text)["message"] == "the step failed"
        (event,) = await served.ended()
        assert event.outcome is Outcome.FAILED
