"""`/v1/responses` over a real listener, as OpenAI's own client speaks and reads it."""

import asyncio
import json
from typing import Any

import openai as sdk
import pytest

from app.vocabulary import FinishReason, Miss, Outcome
from tests.http.test_chat import openai
from tests.support.scripted_engine import ANSWER, CALL, THINK, UNRENDERABLE
from tests.support.serving import Serving, serving

PROMPT = "user: Hello\n"
NOW: Any = {
    "type": "function",
    "name": "now",
    "description": "What time it is.",
    "parameters": {"type": "object"},
    "strict": False,
}
SAID = f'{THINK}hm{ANSWER}One moment.{CALL}now {{"town": "Zürich"}}{CALL}now {{"town": "Bern"}}'


async def whole(served: Serving, said: str, **fields: Any) -> Any:
    """A response that comes in one."""
    start = {key: fields.pop(key) for key in ("cached_tokens", "miss") if key in fields}
    async with openai(served) as client:
        response, _ = await asyncio.gather(
            client.responses.create(**{"model": "scripted", "input": "Hello", **fields}),
            served.engine.answer(said, **start),
        )
        return response


async def streamed(served: Serving, said: str, **fields: Any) -> Any:
    """The response that the client puts together from a stream."""
    start = {key: fields.pop(key) for key in ("cached_tokens", "miss") if key in fields}
    async with openai(served) as client:

        async def read() -> Any:
            async with client.responses.stream(**{"model": "scripted", "input": "Hello", **fields}) as stream:
                return await stream.get_final_response()

        response, _ = await asyncio.gather(read(), served.engine.answer(said, **start))
        return response


BOTH = pytest.mark.parametrize("answer", [whole, streamed])


@BOTH
async def test_thinking_text_and_calls_are_items_in_order(answer: Any) -> None:
    """The official client gets each as its own item, whole or put together from events."""
    async with serving() as served:
        response = await answer(served, SAID, tools=[NOW], metadata={"for": "me"}, instructions="Be kind.")

    reasoning, message, *calls = response.output
    assert (reasoning.type, [part.text for part in reasoning.content]) == ("reasoning", ["hm"])
    assert (message.type, message.role) == ("message", "assistant")
    assert response.output_text == "One moment."
    assert [(call.type, call.name) for call in calls] == [("function_call", "now")] * 2
    assert [json.loads(call.arguments) for call in calls] == [{"town": "Zürich"}, {"town": "Bern"}]
    assert len({item.id for item in response.output}) == 4
    assert len({call.call_id for call in calls}) == 2
    assert {item.status for item in response.output} == {"completed"}
    assert (response.status, response.error, response.incomplete_details) == ("completed", None, None)
    assert (response.metadata, response.instructions) == ({"for": "me"}, "Be kind.")
    assert [(tool.name, tool.parameters) for tool in response.tools] == [("now", {"type": "object"})]
    assert response.store is False


@BOTH
async def test_usage_says_what_came_out_of_the_store_and_what_was_thought(answer: Any) -> None:
    """Input includes the cached tokens; what was written is what the next turn starts from."""
    async with serving() as served:
        warm = (await answer(served, f"{THINK}hm{ANSWER}Hi", cached_tokens=5, miss=None)).usage
        cold = (await answer(served, "Hi", miss=Miss.EMPTY)).usage

    assert warm.input_tokens == cold.input_tokens == len(PROMPT)
    assert warm.input_tokens_details.cached_tokens == 5
    assert warm.input_tokens_details.cache_write_tokens == len(PROMPT) - 1 - 5
    assert cold.input_tokens_details.cached_tokens == 0
    assert warm.output_tokens == len("(hm)Hi.")
    assert warm.output_tokens_details.reasoning_tokens == len("(hm")
    assert cold.output_tokens_details.reasoning_tokens == 0
    assert warm.total_tokens == warm.input_tokens + warm.output_tokens


@pytest.mark.parametrize("stream", [False, True])
async def test_a_response_at_its_limit_is_incomplete(stream: bool) -> None:
    """It says so, and why; its last item as well."""
    async with serving() as served, openai(served) as client:

        async def say() -> None:
            job = await served.engine.next_job()
            assert job.max_tokens == 2
            await served.engine.start(job)
            await served.engine.say(job, "Hi", finish=FinishReason.LENGTH)

        async def read() -> Any:
            answer: Any = await client.responses.create(
                model="scripted", input="Hello", max_output_tokens=2, stream=stream
            )
            if not stream:
                return answer
            last = [event async for event in answer][-1]
            assert last.type == "response.incomplete"
            return last.response

        response, _ = await asyncio.gather(read(), say())

    assert response.status == "incomplete"
    assert response.incomplete_details.reason == "max_output_tokens"
    assert [item.status for item in response.output] == ["incomplete"]
    assert response.output_text == "Hi"


async def test_events_come_in_openais_order() -> None:
    """Each event has its number and the name of its type; items and their parts are opened and closed."""
    async with serving() as served:
        asked = {"input": "Hello", "tools": [NOW], "stream": True}
        response, _ = await asyncio.gather(
            served.client.post("/v1/responses", json=asked),
            served.engine.answer(f"{ANSWER}Hi.{CALL}now"),
        )

    frames = [frame.split("\n") for frame in response.text.strip().split("\n\n")]
    events = [json.loads(data.removeprefix("data: ")) for _, data in frames]
    assert [name.removeprefix("event: ") for name, _ in frames] == [event["type"] for event in events]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event["type"].removeprefix("response.") for event in events] == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]
    assert events[0]["response"]["output"] == []
    assert events[2]["item"]["content"] == []
    assert [item["type"] for item in events[-1]["response"]["output"]] == ["message", "function_call"]


async def test_a_conversation_reaches_the_template_as_any_other_apis() -> None:
    """Items of one reply are one message, results are tool messages, and system prompts are one."""
    async with serving() as served:
        said = await whole(served, SAID, tools=[NOW])
        calls = [item for item in said.output if item.type == "function_call"]
        items = [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "input_text", "text": "Hello"}]},
            *(item.model_dump(exclude_none=True) for item in said.output),
            {"type": "function_call_output", "call_id": calls[0].call_id, "output": "noon"},
            {
                "type": "function_call_output",
                "call_id": calls[1].call_id,
                "output": [{"type": "input_text", "text": "late"}],
            },
        ]
        await whole(served, "It is noon.", tools=[NOW], instructions="Be kind.", input=items)

    chat, _, _ = served.model.prepared[-1]
    system, user, assistant, first, second = chat.messages
    assert system == {"role": "system", "content": "Be kind.\n\nBe brief."}
    assert user == {"role": "user", "content": "Hello"}
    assert (assistant["content"], assistant["reasoning_content"]) == ("One moment.", "hm")
    assert [call["function"] for call in assistant["tool_calls"]] == [
        {"name": "now", "arguments": '{"town": "Zürich"}'},
        {"name": "now", "arguments": '{"town": "Bern"}'},
    ]
    assert [call["id"] for call in assistant["tool_calls"]] == [call.call_id for call in calls]
    assert first == {"role": "tool", "content": "noon", "tool_call_id": calls[0].call_id}
    assert second == {"role": "tool", "content": "late", "tool_call_id": calls[1].call_id}
    (tool,) = chat.tools or ()
    assert tool["function"]["name"] == "now"


async def test_reasoning_of_others_is_taken_for_what_can_be_read_of_it() -> None:
    """A summary stands in for thinking that is not there; what is encrypted is left out."""
    async with serving() as served:
        items: Any = [
            {"role": "user", "content": "Hello"},
            {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "I greet."}]},
            {"type": "reasoning", "id": "s", "summary": [], "encrypted_content": "gAAAA"},
            {"role": "assistant", "content": [{"type": "output_text", "text": "Hi."}]},
            {"role": "user", "content": "And?"},
        ]
        await whole(served, "Well.", input=items)

    _, assistant, _ = served.model.prepared[-1][0].messages
    assert assistant == {"role": "assistant", "content": "Hi.", "reasoning_content": "I greet."}


@pytest.mark.parametrize(
    ("fields", "session"),
    [
        ({"conversation": "conv_1"}, "conv_1"),
        ({"conversation": {"id": "conv_2"}}, "conv_2"),
        ({"conversation": "conv_1", "prompt_cache_key": "key"}, "key"),
        ({"user": "somebody"}, "somebody"),
    ],
)
async def test_a_conversation_is_named_as_clients_name_it(fields: Any, session: str) -> None:
    """A conversation's id names its state, although none of its items is stored."""
    async with serving() as served:
        response = await whole(served, "Hi", **fields)

    assert served.model.prepared[-1][1] == session
    if session.startswith("conv"):
        assert response.conversation.id == session


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"background": True}, "background"),
        ({"prompt": {"id": "pmpt_1"}}, "prompt"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"input": []}, "input"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0]"),
        ({"input": [{"content": "Hello"}]}, "input[0]"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0].content[0]"),
        ({"input": UNRENDERABLE}, "messages"),
        ({"input": "x" * 5000}, "input"),
        ({"tools": [{"type": "function"}]}, "tools"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
    ],
)
async def test_what_is_not_served_is_refused_by_name(fields: Any, param: str) -> None:
    """The official client raises its 400 with the field, and what to send instead where there is such."""
    async with serving() as served:
        async with openai(served) as client:
            with pytest.raises(sdk.BadRequestError) as refused:
                await client.responses.create(model="scripted", input="Hello", extra_body=fields)
        (event,) = await served.ended()

    assert refused.value.param == param
    if param == "previous_response_id":
        assert "send the conversation's items as input" in str(refused.value)
    assert (event.route, event.outcome) == ("/v1/responses", Outcome.INVALID)


async def test_what_breaks_off_a_stream_is_its_last_event() -> None:
    """What there is of the response comes with it, and why there is no more."""
    async with serving() as served:
        async with openai(served) as client:

            async def read() -> list[Any]:
                stream = await client.responses.create(model="scripted", input="Hello", stream=True)
                return [event async for event in stream]

            async def fail() -> None:
                job = await served.engine.next_job()
                await served.engine.start(job)
                await served.engine.say(job, "Hi")
                await served.engine.fail(job, "the step failed", 500)

            events, _ = await asyncio.gather(read(), fail())
        (ended,) = await served.ended()

    last = events[-1]
    assert last.type == "response.failed"
    assert last.response.status == "failed"
    assert last.response.error.message == "the step failed"
    assert last.response.output_text == "Hi"
    assert ended.outcome is Outcome.FAILED


async def test_tools_of_the_provider_are_not_offered() -> None:
    """Nobody here could run them; the model is told of the client's functions alone."""
    async with serving() as served:
        await whole(served, "Hi", tools=[{"type": "web_search"}, NOW])

    (tool,) = served.model.prepared[-1][0].tools or ()
    assert tool["function"]["name"] == "now"
