"""Replies of Anthropic's Messages API over a real listener, as its official client reads them."""

import asyncio
import json
from typing import Any

import pytest

from app.vocabulary import FinishReason, Miss
from tests.support.messages_client import HELLO, NOW, PROMPT, SAID, client_of, streamed, whole
from tests.support.scripted_engine import WAIT_SECONDS
from tests.support.serving import serving

ROUTE = "/v1/messages"
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


async def test_the_models_are_listed_for_this_client_too() -> None:
    """Names and times as it reads them, from the same route as the other one's."""
    async with serving() as served, client_of(served) as client:
        (listed,) = [model async for model in client.models.list()]
        one = await client.models.retrieve("owner/scripted-hub-name")

    assert (listed.id, listed.display_name, listed.type) == ("scripted", "scripted", "model")
    assert int(listed.created_at.timestamp()) == 1_700_000_000
    assert one == listed
