"""What follows a reply over a real listener: its reasoning is kept, and the next turn is prepared."""

import asyncio
import json
from typing import Any

import pytest

from app.api.reasoning_echo import ReasoningEcho
from app.events import WarmupEnded
from app.scheduler.job import Job
from app.vocabulary import Warmup
from tests.support.scripted_engine import ANSWER, THINK, WAIT_SECONDS
from tests.support.serving import Serving, serving

HELLO = {"role": "user", "content": "Hello"}
REPLY = {"role": "assistant", "content": "Hi."}
AGAIN = {"role": "user", "content": "And?"}


def reasoning_seen(served: Serving) -> list[str | None]:
    """The reasoning in each message of the last conversation that was rendered."""
    return [message.get("reasoning_content") for message in served.model.prepared[-1][0].messages]


async def warmup_of(served: Serving) -> Job:
    """The warm-up that the engine was given."""
    return await asyncio.to_thread(served.engine.warmups.get, timeout=WAIT_SECONDS)


@pytest.mark.parametrize("stream", [False, True])
async def test_reasoning_that_a_client_leaves_out_is_put_back(stream: bool) -> None:
    """The template gets the conversation as it was, streamed or not; another session's as it was sent."""
    async with serving(reasoning=ReasoningEcho(100_000)) as served:
        await served.answered(f"{THINK}They greet me.{ANSWER}Hi.", user="ann", stream=stream)

        await served.answered("Well.", user="ann", messages=[HELLO, REPLY, AGAIN])
        assert reasoning_seen(served) == [None, "They greet me.", None]

        await served.answered("Well.", user="bob", messages=[HELLO, REPLY, AGAIN])
        assert reasoning_seen(served) == [None, None, None]


async def test_without_a_budget_conversations_are_rendered_as_they_are_sent() -> None:
    """Switched off, nothing is put back."""
    async with serving() as served:
        await served.answered(f"{THINK}They greet me.{ANSWER}Hi.")
        await served.answered("Well.", messages=[HELLO, REPLY, AGAIN])

        assert reasoning_seen(served) == [None, None, None]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_delivered_reply_is_followed_by_a_warmup(stream: bool) -> None:
    """The engine is given the conversation with the content as the client got it."""
    async with serving(warmup=True) as served:
        response = await served.answered(f"{THINK}hm{ANSWER}Hi.", user="ann", stream=stream)
        job = await warmup_of(served)

    assert "Hi." in _content(response.text, stream=stream)
    assert "".join(map(chr, job.tokens)) == "user: Hello\nassistant: Hi.\nu"
    assert job.session == "ann"


async def test_a_session_that_goes_on_at_once_has_no_turn_prepared_meanwhile() -> None:
    """Its request waits for nothing that is not wanted any more; that it came first is counted."""
    async with serving(warmup=True, settle_seconds=WAIT_SECONDS) as served:
        await served.answered("Hi.", user="ann")
        await served.answered("Well.", user="ann", messages=[HELLO, REPLY, AGAIN])

        assert served.engine.warmups.empty()
        outcomes = [event.outcome for event in served.events if isinstance(event, WarmupEnded)]
        assert outcomes == [Warmup.SUPERSEDED]


async def test_another_session_stands_in_nobodys_way() -> None:
    """Both get their next turns prepared."""
    async with serving(warmup=True) as served:
        await served.answered("Hi.", user="ann")
        await served.answered("Ho.", user="bob")

        assert {(await warmup_of(served)).session for _ in range(2)} == {"ann", "bob"}


async def test_a_client_that_opts_out_has_no_turn_prepared() -> None:
    """Counted as such, and the engine hears nothing."""
    async with serving(warmup=True) as served:
        await served.answered("Hi.", cache_prompt=False)
        await served.ended()

        outcomes = [event.outcome for event in served.events if isinstance(event, WarmupEnded)]
        assert outcomes == [Warmup.OPTED_OUT]
        assert served.engine.warmups.empty()


def _content(text: str, *, stream: bool) -> str:
    if not stream:
        return str(json.loads(text)["choices"][0]["message"]["content"])
    chunks: list[Any] = [
        json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line.startswith("data: {")
    ]
    return "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks)
