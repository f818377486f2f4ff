"""Structured output over HTTP: what each API asks the engine for, and every way in which that can fail."""

import asyncio
import json
from typing import Any

import pytest
from pydantic import BaseModel

from app.api.ports import ReplySchema
from app.engine.constraint import TOO_COMPLEX
from app.errors import RequestError
from app.vocabulary import Outcome
from tests.http.test_chat import HELLO, openai
from tests.support.scripted_engine import CALL, AskedConstraint, CharacterModel
from tests.support.serving import serving

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
FORMAT = {"type": "json_schema", "json_schema": {"name": "it", "schema": SCHEMA, "strict": True}}


class Town(BaseModel):
    """What a client wants to know."""

    name: str
    people: int


class Refusing(CharacterModel):
    """A model that can follow no schema."""

    def constraint(self, *_: Any, **__: Any) -> AskedConstraint | None:
        raise RequestError(
            "response_format: it cannot be followed.", param="response_format", code="unsupported_schema"
        )


async def test_the_official_client_parses_a_reply_into_its_model() -> None:
    """`parse` sends the model's schema, and gets an object of it back."""
    async with serving() as served, openai(served) as client:
        completion, job = await asyncio.gather(
            client.chat.completions.parse(model="scripted", messages=HELLO, response_format=Town),
            served.engine.answer('{"name": "Bern", "people": 137000}'),
        )

        assert completion.choices[0].message.parsed == Town(name="Bern", people=137000)
        assert isinstance(job.constraint, AskedConstraint)
        assert job.constraint.schema is not None
        assert job.constraint.schema.field == "response_format"
        assert set(job.constraint.schema.schema["properties"]) == {"name", "people"}


async def test_the_official_client_parses_a_response_into_its_model() -> None:
    """The same in the responses API, which says the format back as it was asked for."""
    async with serving() as served, openai(served) as client:
        response, _ = await asyncio.gather(
            client.responses.parse(model="scripted", input="Hello", text_format=Town),
            served.engine.answer('{"name": "Bern", "people": 137000}'),
        )

        assert response.output_parsed == Town(name="Bern", people=137000)
        assert response.text is not None
        assert response.text.format is not None
        told = response.text.format.model_dump(by_alias=True)
        assert (told["type"], told["name"], told["strict"]) == ("json_schema", "Town", True)


@pytest.mark.parametrize(
    ("path", "fields", "field"),
    [
        ("/v1/chat/completions", {"messages": HELLO, "response_format": FORMAT}, "response_format"),
        (
            "/v1/responses",
            {"input": "Hello", "text": {"format": {"type": "json_schema", "name": "it", "schema": SCHEMA}}},
            "text.format",
        ),
    ],
)
async def test_a_schema_reaches_the_engine_by_every_api_that_has_one(
    path: str, fields: dict[str, Any], field: str
) -> None:
    """The job is held to it, and each refusal will name the field that API has for it."""
    async with serving() as served:
        response, job = await asyncio.gather(
            served.client.post(path, json=fields), served.engine.answer('{"n": 1}')
        )

        assert response.status_code == 200
        assert job.constraint == AskedConstraint(ReplySchema(SCHEMA, field), None)


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        (
            "/v1/chat/completions",
            {
                "messages": HELLO,
                "tools": [{"type": "function", "function": {"name": "now"}}],
                "tool_choice": "required",
            },
        ),
        (
            "/v1/responses",
            {
                "input": "Hello",
                "tools": [{"type": "function", "name": "now"}],
                "tool_choice": {"type": "function", "name": "now"},
            },
        ),
        (
            "/v1/messages",
            {
                "messages": HELLO,
                "max_tokens": 99,
                "tools": [{"name": "now", "input_schema": {"type": "object"}}],
                "tool_choice": {"type": "any"},
            },
        ),
        (
            "/v1/messages",
            {
                "messages": HELLO,
                "max_tokens": 99,
                "tools": [{"name": "now", "input_schema": {"type": "object"}}],
                "tool_choice": {"type": "tool", "name": "now"},
            },
        ),
    ],
)
async def test_a_call_is_forced_by_every_api(path: str, fields: dict[str, Any]) -> None:
    """Each says it in its own words; the engine is told that the reply must call."""
    async with serving() as served:
        response, job = await asyncio.gather(
            served.client.post(path, json=fields), served.engine.answer(f"{CALL}now")
        )

        assert response.status_code == 200, response.text
        assert isinstance(job.constraint, AskedConstraint)
        assert job.constraint.tools is not None
        assert job.constraint.tools.must


async def test_every_one_of_several_replies_is_held() -> None:
    """With `n`, all of them share one constraint, which none of them changes."""
    async with serving() as served:
        asking = asyncio.create_task(served.post(n=2, response_format=FORMAT))
        first = await served.engine.answer('{"n": 1}')
        second = await served.engine.answer('{"n": 2}')
        body = (await asking).json()

        assert first.constraint is second.constraint is not None
        assert [json.loads(choice["message"]["content"]) for choice in body["choices"]] == [
            {"n": 1},
            {"n": 2},
        ]


async def test_text_stays_free() -> None:
    """Without a format, and with that of text, nothing holds the reply."""
    async with serving() as served:
        for fields in ({}, {"response_format": {"type": "text"}}):
            _, job = await asyncio.gather(served.post(**fields), served.engine.answer("Hi"))
            assert job.constraint is None


@pytest.mark.parametrize("stream", [False, True])
async def test_a_schema_that_cannot_be_followed_is_a_refusal(stream: bool) -> None:
    """A 400 with the field and a code of its own, before anything is generated."""
    async with serving(model=Refusing()) as served:
        response = await served.post(response_format=FORMAT, stream=stream)

        error = response.json()["error"]
        assert response.status_code == 400
        assert (error["param"], error["code"]) == ("response_format", "unsupported_schema")
        assert not served.engine.has_job
        assert [event.outcome for event in await served.ended()] == [Outcome.INVALID]


async def test_a_reply_that_can_no_longer_be_held_is_an_error_and_no_half_of_one() -> None:
    """Whole, it is a 400; in a stream, whose status is out, the error is the last frame."""
    async with serving() as served:
        asking = asyncio.create_task(served.post(response_format=FORMAT))
        job = await served.engine.next_job()
        await served.engine.start(job)
        await served.engine.say(job, '{"n"')
        await served.engine.fail(job, TOO_COMPLEX, 400)
        whole = await asking

        asking = asyncio.create_task(served.post(response_format=FORMAT, stream=True))
        job = await served.engine.next_job()
        await served.engine.start(job)
        await served.engine.say(job, '{"n"')
        await served.engine.fail(job, TOO_COMPLEX, 400)
        streamed = (await asking).text

        assert whole.status_code == 400
        assert whole.json()["error"]["message"] == TOO_COMPLEX
        last = [line for line in streamed.splitlines() if line.startswith("data: ")][-1]
        assert json.loads(last.removeprefix("data: "))["error"]["message"] == TOO_COMPLEX
        assert [event.outcome for event in await served.ended(2)] == [Outcome.INVALID, Outcome.FAILED]


@pytest.mark.parametrize(
    ("choice", "says"),
    [({"type": "tool"}, "needs a name"), ({"type": "some"}, "any"), ({"type": "tool", "name": "x"}, "'x'")],
)
async def test_a_choice_that_anthropics_clients_cannot_have_is_refused(choice: Any, says: str) -> None:
    """The refusal says what is missing, or which choices there are."""
    fields = {
        "messages": HELLO,
        "max_tokens": 9,
        "tools": [{"name": "now", "input_schema": {"type": "object"}}],
        "tool_choice": choice,
    }
    async with serving() as served:
        response = await served.client.post("/v1/messages", json=fields)

        assert response.status_code == 400
        assert says in response.json()["error"]["message"]
