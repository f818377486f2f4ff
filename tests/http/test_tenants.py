"""Whose a request is by its key, and what a tenant can see and remove over HTTP."""

import asyncio
from typing import Any

import pytest

from app.auth.keyring import Keyring
from app.events import AdminCalled
from tests.support.every_route import ASKED, CHAT, ask
from tests.support.keys import KEYS, bearer
from tests.support.serving import serving


@pytest.mark.parametrize("path", ASKED)
async def test_a_tenant_goes_with_the_prompt(path: str) -> None:
    """The key's tenant is the bucket's, by every API; two keys of one tenant are one."""
    async with serving(keyring=Keyring(KEYS)) as served:
        tenants = []
        for name in ("ann", "bob", "bob-2"):
            asking = served.client.post(path, json=ASKED[path], headers=bearer(name))
            answer, job = await asyncio.gather(asking, served.engine.answer("Hi"))
            assert answer.status_code == 200
            tenants.append(job.bucket.tenant)
        assert tenants == ["ann", "bob", "bob"]


async def test_everybody_is_one_tenant_without_keys() -> None:
    """A server without keys serves whoever comes, whatever they send."""
    async with serving() as served:
        assert (await ask(served, CHAT, bearer("ann"))).status_code == 200
        assert [tenant for _, _, tenant in served.model.prepared] == [""]
        assert (await served.client.get("/v1/cache/stats")).json().get("tenant") is None


async def test_stats_are_of_one_s_own_tenant() -> None:
    """A tenant sees its own numbers and cannot ask for another's; an administrator sees all, or any one."""
    async with serving(keyring=Keyring(KEYS)) as served:

        async def of(name: str, query: str = "") -> Any:
            answer = await served.client.get(f"/v1/cache/stats{query}", headers=bearer(name))
            return answer.json().get("tenant") if answer.status_code == 200 else answer.status_code

        assert [await of("ann"), await of("bob-2"), await of("ann", "?tenant=ann")] == ["ann", "bob", "ann"]
        assert await of("ann", "?tenant=bob") == 403
        assert [await of("admin"), await of("admin", "?tenant=bob")] == [None, "bob"]


async def test_removal_is_of_one_s_own_sessions_or_an_administrator_s() -> None:
    """A tenant forgets its own sessions, whatever they are called; the rest is for administrators."""
    async with serving(keyring=Keyring(KEYS)) as served:

        async def status(name: str, method: str, path: str) -> int:
            return (await served.client.request(method, path, headers=bearer(name))).status_code

        assert await status("ann", "DELETE", "/v1/cache/sessions/talk") == 200
        assert await status("ann", "DELETE", "/v1/cache/sessions/a/b%20c") == 200
        assert await status("ann", "DELETE", "/v1/cache/sessions/talk?tenant=bob") == 403
        assert await status("admin", "DELETE", "/v1/cache/sessions/talk?tenant=bob") == 200
        assert served.engine.forgotten == [("ann", "talk"), ("ann", "a/b c"), ("bob", "talk")]
        assert await status("ann", "POST", "/v1/cache/reset") == 403
        assert await status("ann", "POST", "/v1/cache/reset?tenant=ann") == 403
        assert await status("admin", "POST", "/v1/cache/reset?tenant=bob") == 200
        assert await status("admin", "POST", "/v1/cache/reset") == 200
        assert served.engine.resets == ["bob", None]
        # Nor is a text of theirs kept.
        assert served.model.forgot == [*served.engine.forgotten, ("bob", None), (None, None)]


async def test_every_call_that_removes_is_told_with_who_and_what_came_of_it() -> None:
    """Allowed or not, by a key or by nobody; what is no name of a tenant is not repeated."""
    async with serving(keyring=Keyring(KEYS)) as served:
        await served.client.post("/v1/cache/reset?tenant=bob", headers=bearer("admin"))
        await served.client.post("/v1/cache/reset", headers=bearer("ann"))
        await served.client.post("/v1/cache/reset?tenant=%0Aforged", headers={"x-api-key": "wrong"})
        await served.client.delete("/v1/cache/sessions/talk", headers=bearer("ann"))
        await served.client.get("/v1/cache/stats", headers=bearer("admin"))
        told = [event for event in served.events if isinstance(event, AdminCalled)]
    reset, forget = "POST /v1/cache/reset", "DELETE /v1/cache/sessions/{session}"
    assert told == [
        AdminCalled(reset, "admin", "bob", None, 200, "127.0.0.1"),
        AdminCalled(reset, "ann", None, None, 403, "127.0.0.1"),
        AdminCalled(reset, None, None, None, 401, "127.0.0.1"),
        AdminCalled(forget, "ann", None, "talk", 200, "127.0.0.1"),
    ]
