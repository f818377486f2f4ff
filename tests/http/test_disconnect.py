"""Clients that leave, or stop reading: real sockets, closed at every stage."""

import asyncio

import pytest

from app.scheduler.job import Job
from app.vocabulary import FinishReason, Outcome
from tests.support.scripted_engine import BULK, WAIT_SECONDS
from tests.support.serving import RawClient, Serving, serving


async def begun(served: Serving, *, stream: bool = True) -> tuple[RawClient, Job]:
    """A client whose request the engine works on, and its job."""
    client = await served.sockets.connect()
    await client.post(stream=stream)
    job = await served.engine.next_job()
    await served.engine.start(job)
    return client, job


async def say_until_given_up(served: Serving, job: Job) -> None:
    """More than any buffer holds, until the job is cancelled because nobody takes it."""
    async with asyncio.timeout(WAIT_SECONDS):
        while job.id not in served.engine.cancelled:
            await served.engine.say(job, BULK)


@pytest.mark.parametrize("stream", [False, True])
async def test_client_that_leaves_while_waiting_frees_its_place(stream: bool) -> None:
    """A job that has not started is cancelled when its client goes, whatever kind of answer it awaits."""
    async with serving() as served:
        client = await served.sockets.connect()
        await client.post(stream=stream)
        job = await served.engine.next_job()
        await client.leave()

        await served.engine.until_cancelled(job)
        (event,) = await served.ended()
        assert event.outcome is Outcome.CANCELLED


async def test_client_that_leaves_a_whole_reply_cancels_it() -> None:
    """Nothing is written during a whole reply, and still the disconnect is noticed at once."""
    async with serving() as served:
        client, job = await begun(served, stream=False)
        await served.engine.say(job, "half of it")
        await client.leave()

        await served.engine.until_cancelled(job)
        (event,) = await served.ended()
        assert (event.outcome, event.status) == (Outcome.CANCELLED, 499)


async def test_client_that_leaves_a_stream_cancels_it() -> None:
    """A stream whose client goes between two tokens is cancelled without waiting for the next one."""
    async with serving() as served:
        client, job = await begun(served)
        await served.engine.say(job, "Hi")
        await client.read_until(b'"Hi"')
        await client.leave()

        await served.engine.until_cancelled(job)
        (event,) = await served.ended()
        assert (event.outcome, event.status) == (Outcome.CANCELLED, 200)


async def test_client_that_closes_politely_is_gone_as_well() -> None:
    """A FIN at the end of what was read counts as much as a reset."""
    async with serving(keepalive_seconds=0.05) as served:
        client, job = await begun(served)
        await client.read_until(b": keep-alive\n\n")
        await client.close()

        await served.engine.until_cancelled(job)
        await served.ended()


async def test_client_that_does_not_read_is_given_up() -> None:
    """With every buffer full, a client that takes nothing for `write_seconds` counts as gone."""
    async with serving(write_seconds=0.2) as served:
        client, job = await begun(served)
        await say_until_given_up(served, job)

        (event,) = await served.ended()
        assert event.outcome is Outcome.CANCELLED
        await client.leave()


async def test_client_that_does_not_read_holds_no_memory_and_no_engine() -> None:
    """While a write is stuck, unread deltas stay below their bound and the job is cancelled beyond it."""
    async with serving(max_lag_deltas=20) as served:
        client, job = await begun(served)
        await say_until_given_up(served, job)
        assert served.requests.count == 1

        await client.leave()
        served.sink.end_all("the test is over")


async def test_last_token_and_leaving_may_cross() -> None:
    """A client that leaves as its reply ends makes neither an error nor a second end."""
    async with serving() as served:
        for _ in range(20):
            client, job = await begun(served)
            await asyncio.gather(served.engine.say(job, "x", finish=FinishReason.STOP), client.leave())

        events = await served.ended(20)
        assert {event.outcome for event in events} <= {Outcome.COMPLETED, Outcome.CANCELLED}


async def test_others_are_served_while_a_client_does_not_read() -> None:
    """One stuck client costs the others nothing."""
    async with serving(max_lag_deltas=20, write_seconds=0.5) as served:
        stuck, job = await begun(served)
        await say_until_given_up(served, job)

        response = await served.answered("Hi")
        assert response.json()["choices"][0]["message"]["content"] == "Hi"
        await served.ended(2)
        await stuck.leave()
