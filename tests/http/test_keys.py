"""Which keys open which routes, how a key is sent, and what is said to whoever has none."""

import asyncio
from typing import Any

import pytest
from openai import AsyncOpenAI, AuthenticationError, PermissionDeniedError, RateLimitError

from app.auth.keyring import Keyring
from app.vocabulary import FinishReason, Outcome
from tests.support.every_route import ASKED, COUNTED, ask
from tests.support.keys import KEYS, SECRETS, bearer, key
from tests.support.scripted_engine import END_OF_TURN
from tests.support.serving import serving

PROBES = ("/livez", "/readyz", "/startupz")

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


@pytest.mark.parametrize("public", [True, False])
async def test_the_schema_says_of_each_route_which_keys_it_takes(public: bool) -> None:
    """It names what the guards ask for: the schemes where they do, and the scopes that are let in."""
    scopes = {"ann": "inference", "scraper": "metrics", "admin": "admin"}
    async with serving(keyring=Keyring(KEYS), public=public) as served:
        document = (await served.client.get("/docs/openapi.json", headers=bearer("admin"))).json()
        schemes = document["components"]["securitySchemes"]
        assert {(each["type"], each.get("scheme"), each.get("name")) for each in schemes.values()} == {
            ("http", "bearer", None),
            ("apiKey", None, "x-api-key"),
        }
        assert all(each["description"] for each in schemes.values())
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                asked = operation.get("security", [])
                url = path.replace("{name}", "scripted").replace("{session}", "s")
                nobody = await served.client.request(method, url)
                assert (nobody.status_code == 401) == bool(asked), (method, path)
                named: dict[str, set[str]] = {name: set() for name in schemes}
                for each in asked:
                    for name, roles in each.items():
                        named[name] |= set(roles or scopes.values())
                for key_name, scope in scopes.items():
                    said = await served.client.request(method, url, headers=bearer(key_name))
                    let_in = said.status_code not in (401, 403)
                    assert let_in == (not asked or scope in named["bearer"]), (method, path, scope)
                assert named["bearer"] == named["header"]


async def test_the_schema_of_a_server_without_keys_asks_for_none() -> None:
    """A key may be sent all the same."""
    async with serving() as served:
        document = (await served.client.get("/docs/openapi.json")).json()
    asked = [each.get("security", []) for of in document["paths"].values() for each in of.values()]
    assert any(asked)
    assert all({} in each for each in asked if each)


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
