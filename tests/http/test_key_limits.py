"""How much a key may have at once and in a minute, counted over HTTP."""

import asyncio

from app.auth.keyring import Keyring
from app.scheduler.job import Job
from app.vocabulary import Outcome
from tests.support.clock import ManualClock
from tests.support.every_route import CHAT, ask
from tests.support.keys import bearer, key
from tests.support.serving import chat_body, serving


async def test_places_are_given_back_however_a_request_ends() -> None:
    """A key's place is free again after a reply, a refusal, and a client that goes away in mid-stream."""
    async with serving(keyring=Keyring([key("slow", max_concurrent=1)])) as served:
        assert (await ask(served, CHAT, bearer("slow"))).status_code == 200
        wrong = await served.client.post("/v1/chat/completions", content=b"{", headers=bearer("slow"))
        assert wrong.status_code == 400

        async def begin() -> Job:
            job = await served.engine.next_job()
            await served.engine.start(job)
            return job

        beginning = asyncio.ensure_future(begin())
        async with served.client.stream(
            "POST", "/v1/chat/completions", json=chat_body(stream=True), headers=bearer("slow")
        ) as stream:
            assert stream.status_code == 200
            busy = await served.client.post("/v1/chat/completions", json=chat_body(), headers=bearer("slow"))
            assert (busy.status_code, busy.headers["retry-after"]) == (429, "1")
        await served.engine.until_cancelled(await beginning)
        await served.ended(4)
        assert (await ask(served, CHAT, bearer("slow"))).status_code == 200


async def test_requests_a_minute_are_counted_by_key() -> None:
    """A minute's requests may come at once; then one each time one is due, and Retry-After says when."""
    clock = ManualClock()
    keys = [key("slow", requests_per_minute=2), key("ann", tenant="slow")]
    async with serving(keyring=Keyring(keys, clock=clock)) as served:

        async def answers(name: str, count: int) -> list[int]:
            return [(await ask(served, CHAT, bearer(name))).status_code for _ in range(count)]

        assert await answers("slow", 2) == [200, 200]
        refused = await ask(served, CHAT, bearer("slow"))
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "30")
        assert refused.json()["error"]["code"] == "rate_limit_exceeded"
        assert await answers("ann", 3) == [200, 200, 200]
        clock.advance(30)
        assert await answers("slow", 2) == [200, 429]
        assert [ended.outcome for ended in await served.ended(8)].count(Outcome.REFUSED) == 2
