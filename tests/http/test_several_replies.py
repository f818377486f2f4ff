"""`n` replies to one prompt over a real listener: one job each, one answer for all."""

import asyncio
from typing import Any

import pytest

from app.errors import RequestError
from app.scheduler.job import Job
from app.vocabulary import FinishReason, Outcome
from tests.http.test_chat import HELLO, openai
from tests.support.serving import Serving, serving

SAID = ("One", "Two!", "Three")


async def jobs_of(served: Serving, count: int = len(SAID)) -> list[Job]:
    """The next jobs, in the order in which they were submitted."""
    return [await served.engine.next_job() for _ in range(count)]


async def answer_last_first(served: Serving) -> list[Job]:
    """Each reply in turn, the last one first."""
    jobs = await jobs_of(served)
    for job, text in reversed(list(zip(jobs, SAID, strict=True))):
        await served.engine.start(job, cached_tokens=4, miss=None)
        await served.engine.say(job, text, finish=FinishReason.STOP)
    return jobs


@pytest.mark.parametrize("stream", [False, True])
async def test_each_reply_is_its_own_choice(stream: bool) -> None:
    """In the client's order whichever ends first, with the prompt counted once."""
    async with serving() as served, openai(served) as client:

        async def read() -> tuple[list[str], list[str | None], Any]:
            if not stream:
                whole = await client.chat.completions.create(model="scripted", messages=HELLO, n=3)
                said = [choice.message.content or "" for choice in whole.choices]
                return said, [choice.finish_reason for choice in whole.choices], whole.usage
            texts = ["", "", ""]
            reasons: list[str | None] = [None] * 3
            usage = None
            async for chunk in await client.chat.completions.create(
                model="scripted",
                messages=HELLO,
                n=3,
                stream=True,
                stream_options={"include_usage": True},
            ):
                usage = chunk.usage or usage
                for choice in chunk.choices:
                    texts[choice.index] += choice.delta.content or ""
                    reasons[choice.index] = choice.finish_reason or reasons[choice.index]
            return texts, reasons, usage

        (texts, reasons, usage), jobs = await asyncio.gather(read(), answer_last_first(served))
        (event,) = await served.ended()

    assert tuple(texts) == SAID
    assert reasons == ["stop"] * 3
    assert usage.prompt_tokens == len("user: Hello\n")
    assert usage.completion_tokens == sum(map(len, SAID))
    assert usage.prompt_tokens_details.cached_tokens == 4
    assert len({job.id for job in jobs}) == 3
    assert list(event.job_ids) == [job.id for job in jobs]


async def test_a_seed_makes_each_of_them_repeatable_and_none_the_same() -> None:
    """The first has the client's seed, as a single reply would."""
    async with serving() as served:
        _, jobs = await asyncio.gather(served.post(n=3, seed=7), answer_last_first(served))

    assert [job.sampling.seed for job in jobs] == [7, 8, 9]


async def test_one_that_fails_fails_the_request_and_ends_the_others() -> None:
    """A client cannot be told of two ends; what still runs is cancelled."""
    async with serving() as served:
        asked = asyncio.create_task(served.post(n=3))
        first, second, third = await jobs_of(served)
        await served.engine.start(first)
        await served.engine.say(first, "One", finish=FinishReason.STOP)
        await served.engine.fail(second, "the step failed", 500)
        response = await asked
        (event,) = await served.ended()

        assert response.status_code == 500
        assert event.outcome is Outcome.FAILED
        assert served.engine.cancelled == {second.id, third.id}


async def test_where_one_is_refused_none_is_generated() -> None:
    """A queue with room for some of them takes none."""
    async with serving() as served:
        taken = served.engine.submit

        def take_two(job: Job) -> None:
            if job.id.endswith("-2"):
                raise RequestError("full", status=429, code="queue_full", retry_after_seconds=1)
            taken(job)

        served.engine.submit = take_two  # type: ignore[method-assign]
        response = await served.post(n=3)
        first, second = await jobs_of(served, 2)

        assert response.status_code == 429
        assert served.engine.cancelled == {first.id, second.id}


async def test_a_client_that_leaves_frees_every_place() -> None:
    """All jobs are cancelled, in a stream that has begun as well."""
    async with serving() as served:
        client = await served.sockets.connect()
        await client.post(stream=True, n=2)
        first, second = await jobs_of(served, 2)
        await served.engine.start(first)
        await client.read_until(b'"role":"assistant"')
        await client.leave()

        await served.engine.until_cancelled(first)
        await served.engine.until_cancelled(second)
