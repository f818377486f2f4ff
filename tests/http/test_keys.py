"""Who may do what over HTTP: keys, scopes, tenants, limits, and what is said to whoever may not."""

import asyncio
from typing import Any

import httpx
import pytest
from openai import AsyncOpenAI, AuthenticationError, PermissionDeniedError, RateLimitError

from app.auth.keyring import Keyring
from app.events import AdminCalled, FinishReason, Outcome
from app.scheduler.job import Job
from tests.support.clock import ManualClock
from tests.support.keys import KEYS, SECRETS, bearer, key
from tests.support.scripted_engine import END_OF_TURN
from tests.support.serving import Serving, chat_body, serving

CHAT = ("POST", "/v1/chat/completions")
PROBES = ("/livez", "/readyz", "/startupz")

_SAID = [{"role": "user", "content": "Hello"}]
ASKED: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": _SAID},
    "/v1/completions": {"prompt": "Hello"},
    "/v1/responses": {"input": "Hello"},
    "/v1/messages": {"model": "scripted", "messages": _SAID, "max_tokens": 9},
}
"""Each route that the engine answers → the least that can be asked of it."""
COUNTED: dict[str, dict[str, Any]] = {
    "/v1/messages/count_tokens": {"model": "scripted", "messages": _SAID},
    "/v1/tokenize": {"prompt": "Hello"},
    "/v1/detokenize": {"tokens": [72]},
    "/v1/apply-template": {"messages": _SAID},
}
"""The same of those that only the model's tokens are needed for."""

ROUTES: dict[tuple[str, str], set[str]] = {
    **{("POST", path): {"ann", "bob-2"} for path in (*ASKED, *COUNTED)},
    ("GET", "/v1/models"): {"ann", "bob-2", "scraper", "admin"},
    ("GET", "/v1/models/scripted"): {"ann", "bob-2", "scraper", "admin"},
    ("GET", "/v1/cache/stats"): {"ann", "bob-2", "admin"},
    ("DELETE", "/v1/cache/sessions/s"): {"ann", "bob-2", "admin"},
    ("POST", "/v1/cache/reset"): {"admin"},
    ("GET", "/metrics"): {"scraper"},
    ("GET", "/v1/overview"): {"scraper", "admin"},
    ("GET", "/"): {"ann", "bob-2", "scraper", "admin"},
    ("GET", "/docs"): {"ann", "bob-2", "scraper", "admin"},
    ("GET", "/docs/openapi.json"): {"ann", "bob-2", "scraper", "admin"},
}
"""Route → the keys that may use it."""


async def ask(
    served: Serving, route: tuple[str, str], headers: dict[str, str] | None = None
) -> httpx.Response:
    """One request, answered by the engine if it comes so far."""
    method, path = route
    body = ASKED.get(path) or COUNTED.get(path)
    asking = asyncio.ensure_future(served.client.request(method, path, json=body, headers=headers))
    if path in ASKED:
        answering = asyncio.ensure_future(served.engine.answer("Hi"))
        await asyncio.wait([asking, answering], return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            answering.cancel()
    return await asking


@pytest.mark.parametrize("route", ROUTES, ids=" ".join)
async def test_each_route_is_for_the_keys_of_its_scope(route: tuple[str, str]) -> None:
    """No key and an unknown one are 401, a key of another scope 403, and the right one is served."""
    async with serving(keyring=Keyring(KEYS), public=True) as served:
        nobody = await ask(served, route)
        unknown = await ask(served, route, {"authorization": "Bearer sk-samovar-guessed"})
        assert [nobody.status_code, unknown.status_code] == [401, 401]
        assert nobody.headers["www-authenticate"] == 'Bearer realm="samovar"'
        assert unknown.headers["www-authenticate"] == 'Bearer realm="samovar", error="invalid_token"'
        for name in ("ann", "bob-2", "scraper", "admin"):
            answer = await ask(served, route, bearer(name))
            assert answer.status_code == (200 if name in ROUTES[route] else 403), name
            if answer.status_code == 403:
                assert answer.headers["www-authenticate"].startswith(
                    'Bearer realm="samovar", error="insufficient_scope", scope="'
                )
                assert answer.json()["error"]["type"] == "permission_error"


async def test_every_route_is_in_the_table_above() -> None:
    """No route is forgotten: what is not listed here is a probe, and open to all."""
    async with serving() as served:
        document = (await served.client.get("/docs/openapi.json")).json()
    routes = {
        (method.upper(), path) for path, operations in document["paths"].items() for method in operations
    }
    listed = {
        (method, path.replace("/scripted", "/{name}").replace("/sessions/s", "/sessions/{session}"))
        for method, path in ROUTES
        if not path.startswith("/docs")
    }
    assert routes == listed | {("GET", probe) for probe in PROBES}


async def test_probes_ask_for_no_key() -> None:
    """Supervisors have none."""
    async with serving(keyring=Keyring(KEYS), public=True) as served:
        for probe in PROBES:
            assert (await served.client.get(probe)).status_code == 200


async def test_pages_are_open_where_only_this_machine_comes() -> None:
    """`/` and `/docs` say what the repository says too; on loopback a browser may read them without a key."""
    async with serving(keyring=Keyring(KEYS)) as served:
        for page in ("/", "/docs", "/docs/openapi.json"):
            assert (await served.client.get(page)).status_code == 200
        assert (await served.client.get("/v1/models")).status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": f"Bearer {SECRETS['ann']}"},
        {"authorization": f"bearer  {SECRETS['ann']}"},
        {"x-api-key": SECRETS["ann"]},
        {"authorization": "Basic c29tZTpvbmU=", "x-api-key": SECRETS["ann"]},
        {"authorization": f"Bearer {SECRETS['ann']}", "x-api-key": "another"},
    ],
)
async def test_a_key_comes_in_either_header(headers: dict[str, str]) -> None:
    """`Authorization: Bearer`, in any case, goes before `x-api-key`; another scheme is no key of ours."""
    async with serving(keyring=Keyring(KEYS)) as served:
        assert (await served.client.get("/v1/models", headers=headers)).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": ""},
        {"authorization": "Bearer"},
        {"authorization": f"Basic {SECRETS['ann']}"},
        {"authorization": SECRETS["ann"]},
        {"authorization": f"Bearer {SECRETS['ann']}x"},
        {"authorization": f"Bearer {SECRETS['ann'][:-1]}"},
        {"authorization": "Bearer wrong", "x-api-key": SECRETS["ann"]},
        {"x-api-key": ""},
        {"x-api-key": f"Bearer {SECRETS['ann']}"},
        {"cookie": f"api_key={SECRETS['ann']}"},
    ],
)
async def test_what_is_no_key_is_no_key(headers: dict[str, str]) -> None:
    """Nothing but a whole secret in its header opens a route."""
    async with serving(keyring=Keyring(KEYS)) as served:
        answer = await served.client.get(f"/v1/models?api_key={SECRETS['ann']}", headers=headers)
        assert answer.status_code == 401
        assert answer.json()["error"]["type"] == "authentication_error"


async def test_a_refused_request_reaches_neither_model_nor_engine() -> None:
    """It is counted and its body, however large or wrong, is never parsed."""
    async with serving(keyring=Keyring(KEYS)) as served:
        for content in (b"{", b"x" * 60_000):
            answer = await served.client.post("/v1/chat/completions", content=content)
            assert answer.status_code == 401
        assert [ended.outcome for ended in await served.ended(2)] == [Outcome.INVALID] * 2
        assert served.model.prepared == []
        assert not served.engine.has_job


async def test_the_official_client_understands_refusals() -> None:
    """401, 403 and 429 are the client's own exceptions, and a right key is all it needs."""
    keys = (*KEYS, key("slow", max_concurrent=1))
    async with serving(keyring=Keyring(keys)) as served:

        async def say(secret: str) -> Any:
            async with AsyncOpenAI(base_url=f"{served.url}/v1", api_key=secret, max_retries=0) as client:
                return await client.chat.completions.create(
                    model="scripted", messages=[{"role": "user", "content": "Hello"}]
                )

        with pytest.raises(AuthenticationError, match="not one of this server's"):
            await say("wrong")
        with pytest.raises(PermissionDeniedError, match="takes the scope inference"):
            await say(SECRETS["admin"])
        first = asyncio.ensure_future(say(SECRETS["slow"]))
        job = await served.engine.next_job()
        with pytest.raises(RateLimitError, match="1 requests of this API key are under way"):
            await say(SECRETS["slow"])
        await served.engine.start(job)
        await served.engine.say(job, "Hi" + END_OF_TURN, finish=FinishReason.STOP)
        assert (await first).choices[0].message.content == "Hi"


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
        assert (await served.client.get("/v1/cache/stats")).json()["of"] is None


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


async def test_stats_are_of_one_s_own_tenant() -> None:
    """A tenant sees its own numbers and cannot ask for another's; an administrator sees all, or any one."""
    async with serving(keyring=Keyring(KEYS)) as served:

        async def of(name: str, query: str = "") -> Any:
            answer = await served.client.get(f"/v1/cache/stats{query}", headers=bearer(name))
            return answer.json()["of"] if answer.status_code == 200 else answer.status_code

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


async def test_pages_for_people_are_locked_down() -> None:
    """They run no script, load nothing, are in no frame and in no cache."""
    async with serving() as served:
        for page in ("/", "/docs", "/docs/openapi.json"):
            headers = (await served.client.get(page)).headers
            assert "default-src 'none'" in headers["content-security-policy"]
            assert "frame-ancestors 'none'" in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"
            assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("origin", "host", "status"),
    [
        (None, "evil.example.org", 200),
        ("https://evil.example.org", None, 403),
        ("null", None, 403),
        ("http://evil.example.org", "evil.example.org", 403),
        ("https://app.example.org", None, 200),
        ("http://localhost:8080", "localhost:8080", 200),
        ("http://[::1]:8080", "[::1]:8080", 200),
        ("http://localhost.evil.org", "localhost.evil.org", 403),
    ],
)
async def test_pages_of_others_cannot_use_a_server_without_keys(
    origin: str | None, host: str | None, status: int
) -> None:
    """Nor under a name of their own that points here; its own can, and so can programs and named origins."""
    headers = {name: value for name, value in (("origin", origin), ("host", host)) if value is not None}
    async with serving(cors_origins=["https://app.example.org"]) as served:
        for method, path in (("POST", "/v1/cache/reset"), ("GET", "/v1/models")):
            assert (await served.client.request(method, path, headers=headers)).status_code == status
        assert served.engine.resets == [None] * (status == 200)
    async with serving(keyring=Keyring(KEYS), cors_origins=[]) as served:
        answer = await served.client.get("/v1/models", headers=headers | bearer("ann"))
        assert answer.status_code == 200, "where there are keys, a page has none"


async def test_no_origin_is_let_in_unless_it_was_named() -> None:
    """CORS is off; where origins are named, theirs alone are, and their browsers may ask before they send."""
    here, elsewhere = "https://app.example.org", "https://evil.example.org"
    asks = {"access-control-request-method": "POST", "access-control-request-headers": "authorization"}
    async with serving() as served:
        answer = await served.client.get("/v1/models", headers={"origin": elsewhere})
        assert answer.status_code == 403
        assert not [name for name in answer.headers if name.startswith("access-control")]
        answer = await served.client.options("/v1/models", headers={"origin": elsewhere, **asks})
        assert not [name for name in answer.headers if name.startswith("access-control")]
    async with serving(keyring=Keyring(KEYS), cors_origins=[here]) as served:
        before = await served.client.options("/v1/chat/completions", headers={"origin": here, **asks})
        assert before.status_code == 204
        assert before.headers["access-control-allow-origin"] == here
        answer = await served.client.get("/v1/models", headers={"origin": here, **bearer("ann")})
        assert answer.headers["access-control-allow-origin"] == here
        for origin in (elsewhere, f"{here}.evil.org", "null"):
            refused = await served.client.options("/v1/models", headers={"origin": origin, **asks})
            assert refused.status_code == 400
            answer = await served.client.get("/v1/models", headers={"origin": origin, **bearer("ann")})
            assert "access-control-allow-origin" not in answer.headers
