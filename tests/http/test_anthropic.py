"""Anthropic's Messages API over a real listener, as its official client speaks and reads it."""

import asyncio
import json
from typing import Any

import anthropic
import pytest
from anthropic import AsyncAnthropic

from app.api.ports import Phase
from app.auth.keyring import Keyring
from app.errors import RequestError
from app.events import FinishReason, Miss, Outcome
from tests.support.keys import KEYS, SECRETS
from tests.support.scripted_engine import ANSWER, CALL, THINK, UNRENDERABLE, WAIT_SECONDS
from tests.support.serving import Serving, serving

HELLO: Any = [{"role": "user", "content": "Hello"}]
PROMPT = "user: Hello\n"
NOW: Any = {"name": "now", "description": "What time it is.", "input_schema": {"type": "object"}}
ROUTE = "/v1/messages"
SAID = f'{THINK}hm{ANSWER}One moment.{CALL}now {{"town": "Zürich"}}{CALL}now {{"town": "Bern"}}'


def client_of(served: Serving, **options: Any) -> AsyncAnthropic:
    """The official client, without retries of its own."""
    return AsyncAnthropic(
        base_url=served.url, **{"api_key": "unused", "max_retries": 0, "timeout": 10, **options}
    )


async def whole(served: Serving, said: str, **fields: Any) -> Any:
    """A message that comes in one."""
    start = {key: fields.pop(key) for key in ("cached_tokens", "miss") if key in fields}
    async with client_of(served) as client:
        message, _ = await asyncio.gather(
            client.messages.create(**{"model": "scripted", "max_tokens": 99, "messages": HELLO, **fields}),
            served.engine.answer(said, **start),
        )
        return message


async def streamed(served: Serving, said: str, **fields: Any) -> Any:
    """The message that the client puts together from a stream."""
    start = {key: fields.pop(key) for key in ("cached_tokens", "miss") if key in fields}
    async with client_of(served) as client:

        async def read() -> Any:
            asked = {"model": "scripted", "max_tokens": 99, "messages": HELLO, **fields}
            async with client.messages.stream(**asked) as stream:
                return await stream.get_final_message()

        message, _ = await asyncio.gather(read(), served.engine.answer(said, **start))
        return message


BOTH = pytest.mark.parametrize("answer", [whole, streamed])


@BOTH
async def test_thinking_text_and_calls_are_blocks_in_order(answer: Any) -> None:
    """The official client gets each as its own block, whole or put together from events."""
    async with serving() as served:
        message = await answer(served, SAID, tools=[NOW])

    thinking, text, *calls = message.content
    assert (thinking.type, thinking.thinking) == ("thinking", "hm")
    assert (text.type, text.text) == ("text", "One moment.")
    assert [(call.type, call.name) for call in calls] == [("tool_use", "now")] * 2
    assert [call.input for call in calls] == [{"town": "Zürich"}, {"town": "Bern"}]
    assert len({call.id for call in calls}) == 2
    assert (message.stop_reason, message.stop_sequence) == ("tool_use", None)
    assert (message.role, message.type, message.model) == ("assistant", "message", "scripted")


@BOTH
async def test_usage_counts_as_anthropic_does(answer: Any) -> None:
    """Input is what neither came out of the store nor was left in it; the three add up to the prompt."""
    async with serving() as served:
        warm = (await answer(served, "Hi", cached_tokens=5, miss=None)).usage
        cold = (await answer(served, "Hi", miss=Miss.EMPTY)).usage
        off = (await answer(served, "Hi", miss=Miss.DISABLED)).usage

    counts = [
        (usage.input_tokens, usage.cache_creation_input_tokens, usage.cache_read_input_tokens)
        for usage in (warm, cold, off)
    ]
    length = len(PROMPT)
    assert counts == [(1, length - 1 - 5, 5), (1, length - 1, 0), (length, 0, 0)]
    assert warm.output_tokens == len("Hi") + 1


@BOTH
async def test_it_says_which_stop_sequence_ended_it(answer: Any) -> None:
    """The first of those given that came; and what the engine made of it afterwards is not sent."""
    async with serving() as served:
        message = await answer(served, "One. Two! Three", stop_sequences=["#", "!"])

    assert [block.text for block in message.content] == ["One. Two"]
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", "!")


@pytest.mark.parametrize(("finish", "reason"), [("length", "max_tokens"), ("stop", "end_turn")])
async def test_it_says_why_the_reply_ended(finish: str, reason: str) -> None:
    """At its limit, or because the model's turn was over."""
    async with serving() as served, client_of(served) as client:

        async def say() -> None:
            job = await served.engine.next_job()
            await served.engine.start(job)
            await served.engine.say(job, "Hi", finish=FinishReason(finish))

        message, _ = await asyncio.gather(
            client.messages.create(model="scripted", max_tokens=2, messages=HELLO), say()
        )

    assert message.stop_reason == reason


async def test_events_come_in_anthropics_order() -> None:
    """Every event has a name and says its type, blocks are opened and closed, and the last is the end."""
    async with serving() as served:
        response, _ = await asyncio.gather(
            served.client.post(ROUTE, json={"messages": HELLO, "tools": [NOW], "stream": True}),
            served.engine.answer(SAID),
        )

    frames = [frame.split("\n") for frame in response.text.strip().split("\n\n")]
    events = [
        (name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in frames
    ]
    assert all(name == data["type"] for name, data in events)
    names = [name for name, _ in events if name != "content_block_delta"]
    block = ["content_block_start", "content_block_stop"]
    assert names == ["message_start", *block * 4, "message_delta", "message_stop"]
    kinds = [data["delta"]["type"] for name, data in events if name == "content_block_delta"]
    assert kinds == ["thinking_delta", "text_delta", "input_json_delta", "input_json_delta"]
    start = events[0][1]["message"]
    assert (start["content"], start["stop_reason"]) == ([], None)


async def test_a_silent_stream_pings() -> None:
    """While nothing is said, the client hears that the connection lives, and reads on."""
    async with serving(keepalive_seconds=0.02) as served:

        async def say() -> None:
            job = await served.engine.next_job()
            await served.engine.start(job)
            async with asyncio.timeout(WAIT_SECONDS):
                while b"event: ping" not in b"".join(received):
                    await asyncio.sleep(0.005)
            await served.engine.say(job, "Hi", finish=FinishReason.STOP)

        received: list[bytes] = []

        async def read() -> None:
            body = {"messages": HELLO, "stream": True}
            async with served.client.stream("POST", ROUTE, json=body) as response:
                async for chunk in response.aiter_bytes():
                    received.append(chunk)

        await asyncio.gather(read(), say())

    assert b"".join(received).rstrip().endswith(b'data: {"type":"message_stop"}')


async def test_a_conversation_reaches_the_template_as_any_other_apis() -> None:
    """System blocks, thinking, calls and results are what OpenAI's clients would have sent."""
    async with serving() as served:
        said = await whole(served, SAID, tools=[NOW])
        calls = [block for block in said.content if block.type == "tool_use"]
        results = [
            {"type": "tool_result", "tool_use_id": calls[0].id, "content": "noon"},
            {
                "type": "tool_result",
                "tool_use_id": calls[1].id,
                "content": [{"type": "text", "text": "late"}],
                "is_error": False,
            },
            {"type": "text", "text": "So?", "cache_control": {"type": "ephemeral"}},
        ]
        await whole(
            served,
            "It is noon.",
            tools=[NOW],
            system=[
                {"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}},
                {"type": "text", "text": "Be brief."},
            ],
            messages=[
                *HELLO,
                {"role": "assistant", "content": [block.model_dump() for block in said.content]},
                {"role": "user", "content": results},
            ],
        )

    chat, _, _ = served.model.prepared[-1]
    system, _, assistant, first, second, last = chat.messages
    assert system == {"role": "system", "content": "Be kind.\nBe brief."}
    assert (assistant["content"], assistant["reasoning_content"]) == ("One moment.", "hm")
    assert [call["function"] for call in assistant["tool_calls"]] == [
        {"name": "now", "arguments": '{"town": "Zürich"}'},
        {"name": "now", "arguments": '{"town": "Bern"}'},
    ]
    assert first == {"role": "tool", "content": "noon", "tool_call_id": calls[0].id}
    assert second == {"role": "tool", "content": "late", "tool_call_id": calls[1].id}
    assert last == {"role": "user", "content": "So?"}
    function = {"name": "now", "description": "What time it is.", "parameters": {"type": "object"}}
    assert chat.tools == ({"type": "function", "function": function},)


async def test_a_providers_own_tools_are_not_offered() -> None:
    """Nobody here could run them; the model is told of the client's tools alone."""
    async with serving() as served:
        search: Any = {"type": "web_search_20250305", "name": "web_search"}
        await whole(served, "Hi", tools=[search, NOW])
        await whole(served, "Hi", tools=[search])

    assert [tool["function"]["name"] for tool in served.model.prepared[0][0].tools or ()] == ["now"]
    assert served.model.prepared[1][0].tools is None


async def test_thinking_that_is_not_wanted_is_said_to_the_template() -> None:
    """Where it is wanted, the template's own way is left alone."""
    async with serving() as served:
        for thinking in ({"type": "disabled"}, {"type": "enabled", "budget_tokens": 1024}):
            await whole(served, "Hi", thinking=thinking, max_tokens=2048)

    assert [dict(chat.template_kwargs) for chat, _, _ in served.model.prepared] == [
        {"enable_thinking": False},
        {},
    ]


async def test_one_call_at_a_time_where_the_client_wants_no_more() -> None:
    """The reply ends with its first call."""
    async with serving() as served:
        choice: Any = {"type": "auto", "disable_parallel_tool_use": True}
        message = await whole(served, SAID, tools=[NOW], tool_choice=choice)

    assert [block.input for block in message.content if block.type == "tool_use"] == [{"town": "Zürich"}]


@pytest.mark.parametrize(
    ("options", "session"),
    [
        ({"metadata": {"user_id": "user_1_account_2_session_6a9c"}}, "6a9c"),
        ({"extra_headers": {"X-Claude-Code-Session-Id": "talk"}}, "talk"),
        ({"extra_body": {"prompt_cache_key": "key"}}, "key"),
    ],
)
async def test_a_conversation_is_named_as_clients_name_it(options: Any, session: str) -> None:
    """By the session part of the user's id, by a header, or by the field of the other APIs."""
    async with serving() as served:
        await whole(served, "Hi", **options)

    assert served.model.prepared[-1][1] == session


async def test_tokens_are_counted_without_a_reply() -> None:
    """The official client's count is the length of the prompt that the same message would have."""
    async with serving() as served, client_of(served) as client:
        count = await client.messages.count_tokens(model="scripted", messages=HELLO, system="Be kind.")

        assert count.input_tokens == len("system: Be kind.\n" + PROMPT)
        assert not served.engine.has_job


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


async def test_the_models_are_listed_for_this_client_too() -> None:
    """Names and times as it reads them, from the same route as the other one's."""
    async with serving() as served, client_of(served) as client:
        (listed,) = [model async for model in client.models.list()]
        one = await client.models.retrieve("owner/scripted-hub-name")

    assert (listed.id, listed.display_name, listed.type) == ("scripted", "scripted", "model")
    assert int(listed.created_at.timestamp()) == 1_700_000_000
    assert one == listed
