"""Tool calls over a real listener, as OpenAI's own client reads them and sends them back."""

import asyncio
from typing import Any

import pytest

from app.vocabulary import Outcome
from tests.http.test_chat import HELLO, openai
from tests.support.scripted_engine import ANSWER, CALL, THINK
from tests.support.serving import Serving, serving

NOW: Any = {"type": "function", "function": {"name": "now", "parameters": {"type": "object"}}}
CALLS_TWICE = f'{THINK}hm{ANSWER}One moment.{CALL}now {{"town": "Zürich"}}{CALL}now {{"town": "Bern"}}'


async def whole(served: Serving, said: str, **fields: Any) -> Any:
    """The one choice of a whole reply."""
    async with openai(served) as client:
        completion, _ = await asyncio.gather(
            client.chat.completions.create(model="scripted", messages=HELLO, tools=[NOW], **fields),
            served.engine.answer(said),
        )
        return completion.choices[0]


async def streamed(served: Serving, said: str, **fields: Any) -> Any:
    """The one choice that the client puts together from a stream."""
    async with openai(served) as client:

        async def read() -> Any:
            async with client.chat.completions.stream(
                model="scripted", messages=HELLO, tools=[NOW], **fields
            ) as stream:
                return (await stream.get_final_completion()).choices[0]

        choice, _ = await asyncio.gather(read(), served.engine.answer(said))
        return choice


BOTH = pytest.mark.parametrize("answer", [whole, streamed])


@BOTH
async def test_the_official_client_reads_parallel_calls(answer: Any) -> None:
    """Names, arguments as JSON text, ids of their own; the text beside them; and the reason."""
    async with serving() as served:
        choice = await answer(served, CALLS_TWICE)

    calls = choice.message.tool_calls
    assert [call.function.name for call in calls] == ["now", "now"]
    assert [call.function.arguments for call in calls] == ['{"town": "Zürich"}', '{"town": "Bern"}']
    assert [call.type for call in calls] == ["function", "function"]
    assert len({call.id for call in calls}) == 2
    assert choice.message.content == "One moment."
    assert choice.message.reasoning_content == "hm"
    assert choice.finish_reason == "tool_calls"


@BOTH
async def test_a_reply_may_be_calls_alone(answer: Any) -> None:
    """There is no text then."""
    async with serving() as served:
        choice = await answer(served, f"{CALL}now")

    assert not choice.message.content
    assert [call.function.arguments for call in choice.message.tool_calls] == ["{}"]


@BOTH
async def test_what_cannot_be_read_as_a_call_is_text(answer: Any) -> None:
    """It is never lost, and never an error."""
    async with serving() as served:
        choice = await answer(served, f"Let me see.{CALL}now(", n=1)
        (event,) = await served.ended()

    assert choice.message.content == "Let me see.now("
    assert not choice.message.tool_calls
    assert choice.finish_reason == "stop"
    assert event.outcome is Outcome.COMPLETED


@BOTH
async def test_without_parallel_calls_the_first_ends_the_reply(answer: Any) -> None:
    """The engine is told that the reply is complete, and computes no more of it."""
    async with serving() as served:
        choice = await answer(served, CALLS_TWICE, parallel_tool_calls=False)

        assert [call.function.arguments for call in choice.message.tool_calls] == ['{"town": "Zürich"}']
        assert choice.finish_reason == "tool_calls"
        assert len(served.engine.finished) == 1


async def test_a_call_that_is_not_wanted_is_kept_from_the_model() -> None:
    """The prompt keeps its tools, and so its state; the token that calls begin with cannot come."""
    async with serving() as served:
        for choice in ("none", "auto"):
            response, job = await asyncio.gather(
                served.post(tools=[NOW], tool_choice=choice), served.engine.answer(f"{CALL}now")
            )
            message = response.json()["choices"][0]["message"]
            assert served.model.prepared[-1][0].tools == (NOW,)
            assert dict(job.sampling.logit_bias) == ({ord(CALL): -100} if choice == "none" else {})
            assert ("tool_calls" in message) is (choice == "auto")


async def test_a_call_comes_back_to_the_template_as_it_was_sent() -> None:
    """Whatever the client makes of it on the way: its own order of fields, null content, extra fields."""
    async with serving() as served:
        choice = await whole(served, f'{CALL}now {{"town": "Bern"}}')
        (call,) = choice.message.tool_calls
        echo = choice.message.model_dump()
        result = {"role": "tool", "tool_call_id": call.id, "content": "noon"}
        await served.answered("It is noon.", messages=[*HELLO, echo, result], tools=[NOW])

    _, said, told = served.model.prepared[-1][0].messages
    function = {"name": "now", "arguments": '{"town": "Bern"}'}
    assert said == {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": call.id, "type": "function", "function": function}],
    }
    assert told == result


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tool_choice": "any"}, "tool_choice"),
        ({"tool_choice": {"type": "function", "function": {"name": "then"}}}, "tool_choice"),
        ({"tools": [], "tool_choice": "required"}, "tool_choice"),
        ({"tools": [{"type": "retrieval"}]}, "tools"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools"),
        ({"parallel_tool_calls": "no"}, "parallel_tool_calls"),
        ({"messages": [{"role": "assistant", "tool_calls": [{"id": "1"}]}]}, "messages"),
        ({"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": 1}}]}]}, "messages"),
    ],
)
async def test_what_is_wrong_with_tools_is_said_where_it_is(fields: Any, param: str) -> None:
    """A 400 in OpenAI's shape that names the field."""
    async with serving() as served:
        response = await served.post(**{"tools": [NOW], **fields})

    error = response.json()["error"]
    assert response.status_code == 400
    assert error["type"] == "invalid_request_error"
    assert error["param"].startswith(param)
    assert param in error["message"]
