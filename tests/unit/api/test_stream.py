"""Laws of the way from the engine thread to a waiting request."""

import asyncio

import pytest

from app.api.stream import Channel, LoopSink, OpenRequests
from app.scheduler.job import Delta, Failed, Generated, JobId, Prefilled, Started
from app.vocabulary import FinishReason

JOB = JobId("job")
A, B, C = (Generated(token, None, None) for token in (1, 2, 3))
SOON, LONG = 0.01, 10.0


def sink(*, max_lag_deltas: int = 100) -> LoopSink:
    return LoopSink(asyncio.get_running_loop(), max_lag_deltas=max_lag_deltas)


def unexpected(job: JobId) -> None:
    raise AssertionError(f"{job} lagged")


async def from_engine(to: LoopSink, *deltas: Delta, job: JobId = JOB) -> None:
    """One step of the engine, on a thread of its own."""
    await asyncio.to_thread(to, [(job, delta) for delta in deltas])
    await asyncio.sleep(0)


async def test_deltas_of_several_steps_come_at_once_and_in_order() -> None:
    """A reader that comes late gets everything unread in one go, oldest first."""
    engine = sink()
    with engine.open(JOB, on_lag=unexpected) as channel:
        await from_engine(engine, Started(0, None), A)
        await from_engine(engine, B)

        assert list(await channel.take(LONG)) == [Started(0, None), A, B]
        assert list(await channel.take(SOON)) == []


async def test_reader_is_woken_by_the_first_delta() -> None:
    """A reader that waits is woken when something comes, long before its time is over."""
    engine = sink()
    with engine.open(JOB, on_lag=unexpected) as channel:
        reader = asyncio.create_task(channel.take(LONG))
        await asyncio.sleep(0)
        await from_engine(engine, A)

        assert list(await asyncio.wait_for(reader, LONG / 2)) == [A]


async def test_jobs_get_their_own_deltas_only() -> None:
    """One step's deltas are sorted out by job; those of a job nobody reads any more are dropped."""
    engine = sink()
    other, gone = JobId("other"), JobId("gone")
    with engine.open(gone, on_lag=unexpected):
        pass
    with engine.open(JOB, on_lag=unexpected) as mine, engine.open(other, on_lag=unexpected) as theirs:
        await asyncio.to_thread(engine, [(JOB, A), (gone, C), (other, B)])

        assert list(await mine.take(LONG)) == [A]
        assert list(await theirs.take(LONG)) == [B]


async def test_prefill_progress_wakes_nobody() -> None:
    """Progress that no client is told of neither wakes a reader nor counts as lag."""
    engine = sink(max_lag_deltas=1)
    with engine.open(JOB, on_lag=unexpected) as channel:
        await from_engine(engine, Prefilled(1, 3), Prefilled(2, 3), Prefilled(3, 3))

        assert list(await channel.take(SOON)) == []


async def test_reader_that_lags_costs_its_own_job_only() -> None:
    """Beyond the bound the unread deltas are dropped, the job is cancelled once, and its reader told why."""
    lagged: list[JobId] = []
    engine = sink(max_lag_deltas=2)
    with engine.open(JOB, on_lag=lagged.append) as channel:
        await from_engine(engine, A, B)
        assert lagged == []
        await from_engine(engine, C, A, B)

        assert lagged == [JOB]
        unread = await channel.take(LONG)
        assert [type(delta) for delta in unread] == [Failed]
        await from_engine(engine, A)
        assert list(await channel.take(SOON)) == []


async def test_end_all_is_the_last_word_of_every_open_job() -> None:
    """A forced end replaces what is unread with a 503, and nothing can follow it."""
    engine = sink()
    other = JobId("other")
    with engine.open(JOB, on_lag=unexpected) as one, engine.open(other, on_lag=unexpected) as two:
        await from_engine(engine, A)
        engine.end_all("shutting down")
        engine.end_all("again")
        await from_engine(engine, Generated(9, None, FinishReason.STOP))

        for channel in (one, two):
            assert list(await channel.take(LONG)) == [Failed("shutting down", 503)]
            assert list(await channel.take(SOON)) == []


async def test_request_that_says_no_last_word_is_abandoned() -> None:
    """Some time after a forced end, and only then, nobody waits any longer for the request to finish."""
    engine = sink()
    with (
        engine.open(JOB, on_lag=unexpected) as ended,
        engine.open(JobId("other"), on_lag=unexpected) as other,
    ):
        ended.end(Failed("shutting down", 503))
        await asyncio.wait_for(ended.abandoned(), LONG)

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(other.abandoned(), SOON)


async def test_delta_arriving_at_the_timeout_is_not_lost() -> None:
    """What comes while a reader gives up waiting is there at its next try."""
    channel = Channel(JOB, max_lag_deltas=10, on_lag=unexpected)
    reader = asyncio.create_task(channel.take(0))
    await asyncio.sleep(0)
    channel.put(A)
    taken: list[Delta] = list(await reader)
    taken += await channel.take(SOON)

    assert taken == [A]


def test_engine_may_outlive_the_loop() -> None:
    """A step that ends after the loop was closed is told to nobody and raises nothing."""
    loop = asyncio.new_event_loop()
    engine = LoopSink(loop)
    loop.close()

    engine([(JOB, A)])


async def test_open_requests_are_awaited_until_the_last() -> None:
    """`none_left` returns at once when nothing is open, and otherwise with the end of the last request."""
    requests = OpenRequests()
    await asyncio.wait_for(requests.none_left(), LONG)

    first, second = requests.one(), requests.one()
    with first:
        with second:
            assert requests.count == 2
            waiting = asyncio.create_task(requests.none_left())
        await asyncio.sleep(0)
        assert not waiting.done()
    await asyncio.wait_for(waiting, LONG)
    assert requests.count == 0
