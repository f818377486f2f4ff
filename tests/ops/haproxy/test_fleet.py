"""The committed configuration before three real servers: conversations stay where their state is."""

import asyncio
import contextlib
import re
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.ports import free_port
from tests.support.process import Samovar
from tests.support.tiny import make_tiny_model

pytestmark = [pytest.mark.slow]

CONFIG = Path("ops/haproxy/haproxy.cfg")
HAPROXY = "/usr/sbin/haproxy"
CONVERSATIONS, TURNS = 10, 5
HOSTS = ("mac-1", "mac-2", "mac-3")
KEY = "sk-samovar-of-this-fleet"
SHOWN = {"authorization": f"Bearer {KEY}"}


@dataclass
class Turn:
    """Who answered, and whether state was reused there."""

    host: str
    hit: bool


@dataclass
class Talk:
    """One client's conversation through the load balancer."""

    name: str
    turns: list[Turn] = field(default_factory=list)
    messages: list[dict[str, str]] = field(default_factory=list)
    errors: int = 0

    async def turn(self, client: httpx.AsyncClient) -> None:
        """Say the next thing; a broken connection is tried again once, as clients do."""
        text = f"{self.name} asks, for the {len(self.turns)}th time, about tea, coal and steam"
        self.messages.append({"role": "user", "content": text})
        try:
            answer = await self._ask(client)
        except httpx.TransportError:
            self.errors += 1
            answer = await self._ask(client)
        assert answer.status_code == 200, answer.text
        self.messages.append(answer.json()["choices"][0]["message"])
        self.turns.append(
            Turn(answer.headers["x-samovar-host"], answer.headers["x-samovar-cache"].startswith("hit"))
        )

    async def _ask(self, client: httpx.AsyncClient) -> httpx.Response:
        body: dict[str, Any] = {"messages": self.messages, "max_tokens": 24, "temperature": 0}
        return await client.post(
            "/v1/chat/completions", json=body, headers={"x-session-id": self.name}, timeout=120
        )

    def moves(self) -> list[tuple[int, Turn]]:
        """Turns answered by another host than the one before."""
        return [(n, turn) for n, turn in enumerate(self.turns) if n and turn.host != self.turns[n - 1].host]


@dataclass
class Fleet:
    """Servers by name, and the one address before them."""

    hosts: dict[str, Samovar]
    url: str

    def owner_of_most(self, talks: list[Talk]) -> str:
        """The host that answered most conversations last."""
        owners = [talk.turns[-1].host for talk in talks]
        return max(sorted(set(owners)), key=owners.count)


@contextlib.contextmanager
def load_balancer(addresses: dict[str, str], folder: Path) -> Iterator[str]:
    """HAProxy on the committed file, in which only addresses and the port are others."""
    text, port = CONFIG.read_text(), free_port()
    for name, address in addresses.items():
        text, changed = re.subn(rf"(server {name}) \S+", rf"\1 {address}", text)
        assert changed == 1
    assert text.count("bind :8000") == 1
    path = folder / "haproxy.cfg"
    path.write_text(text.replace("bind :8000", f"bind 127.0.0.1:{port}"))
    process = subprocess.Popen(
        [HAPROXY, "-db", "-f", path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        while True:
            assert process.poll() is None, process.communicate()[0]
            with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
                break
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    """Three servers of one tiny model and one key behind HAProxy, which has found all of them ready."""
    model = make_tiny_model(tmp_path / "tiny", "lfm2")
    keys = {"SAMOVAR_AUTH__KEY": KEY}
    hosts = {name: Samovar("--model", str(model), folder=tmp_path, environment=keys) for name in HOSTS}
    try:
        for host in hosts.values():
            host.wait_ready()
        addresses = {name: host.url.removeprefix("http://") for name, host in hosts.items()}
        with load_balancer(addresses, tmp_path) as url:
            yield Fleet(hosts, url)
    finally:
        for host in hosts.values():
            if host.process.poll() is None:
                host.process.kill()
                host.wait_ended()


async def all_turn(talks: list[Talk], client: httpx.AsyncClient) -> None:
    await asyncio.gather(*(talk.turn(client) for talk in talks))


def test_committed_file_is_valid():
    """HAProxy accepts the file as it is, and refuses it with a word misspelt."""
    good = subprocess.run([HAPROXY, "-c", "-f", CONFIG], capture_output=True, text=True, check=False)
    twin = CONFIG.read_text().replace("hash-type consistent", "hash-type consistant")
    bad = subprocess.run(
        [HAPROXY, "-c", "-f", "/dev/stdin"], input=twin, capture_output=True, text=True, check=False
    )

    assert good.returncode == 0, good.stderr
    assert bad.returncode != 0


async def test_drained_host_moves_only_its_own_conversations(fleet: Fleet):
    """No request fails; conversations of the drained host miss once, those of others never."""
    talks = [Talk(f"talk-{n}") for n in range(CONVERSATIONS)]
    async with httpx.AsyncClient(base_url=fleet.url, headers=SHOWN) as client:
        await all_turn(talks, client)
        await all_turn(talks, client)
        drained = fleet.owner_of_most(talks)
        fleet.hosts[drained].signal(signal.SIGTERM)
        for _ in range(TURNS - 2):
            await all_turn(talks, client)
    code = fleet.hosts[drained].wait_ended()

    assert code == 0
    assert sum(talk.errors for talk in talks) == 0
    assert {talk.turns[0].host for talk in talks} == set(HOSTS)
    for talk in talks:
        if talk.turns[0].host == drained:
            (moved, _), *more = talk.moves()
            assert not more
            assert [turn.hit for turn in talk.turns] == [n not in {0, moved} for n in range(TURNS)]
        else:
            assert talk.moves() == []
            assert [turn.hit for turn in talk.turns] == [False] + [True] * (TURNS - 1)


async def test_killed_host_costs_one_retryable_error_at_most(fleet: Fleet):
    """A host killed amid its requests: each client tries again once at most, and goes on elsewhere."""
    talks = [Talk(f"talk-{n}") for n in range(CONVERSATIONS)]
    async with httpx.AsyncClient(base_url=fleet.url, headers=SHOWN) as client:
        await all_turn(talks, client)
        await all_turn(talks, client)
        killed = fleet.owner_of_most(talks)
        under_way = asyncio.create_task(all_turn(talks, client))
        async with httpx.AsyncClient(base_url=fleet.hosts[killed].url) as probe:
            while (await probe.get("/readyz")).json()["running"] == 0:
                assert not under_way.done(), "nothing ran on the host that is to be killed"
        fleet.hosts[killed].process.kill()
        await under_way
        for _ in range(TURNS - 3):
            await all_turn(talks, client)

    assert all(talk.errors <= 1 for talk in talks)
    for talk in talks:
        assert talk.turns[-1].hit
        assert talk.turns[-1].host != killed
        assert len(talk.moves()) == (talk.turns[0].host == killed)


async def test_operators_routes_are_not_for_everybody(fleet: Fleet):
    """What concerns one host is not answered by whichever host a balancer picks."""
    async with httpx.AsyncClient(base_url=fleet.url, headers=SHOWN) as client:
        assert (await client.get("/v1/models")).status_code == 200
        for path in ("/metrics", "/v1/cache/stats", "/v1/overview", "/readyz", "/docs"):
            assert (await client.get(path)).status_code == 404


async def test_keys_are_the_hosts_to_check(fleet: Fleet):
    """A key gets through in either header; without one, or with another, it is the host that refuses."""
    async with httpx.AsyncClient(base_url=fleet.url) as client:
        asked = [
            await client.get("/v1/models", headers=headers)
            for headers in (SHOWN, {"x-api-key": KEY}, {}, {"x-api-key": KEY[::-1]})
        ]

    assert [answer.status_code for answer in asked] == [200, 200, 401, 401]
    assert all(answer.headers["x-samovar-host"] in HOSTS for answer in asked)


async def test_session_in_the_body_is_enough(fleet: Fleet):
    """A client that only sends a name in the body comes back to its host on every connection, in any API."""
    body = {"messages": [{"role": "user", "content": "tea"}], "max_tokens": 1}
    user_id = f"user_{'0af7' * 16}_account_{'1b' * 18}_session_"
    answered: dict[str, set[str]] = {}
    for key in ("ada", "bob", "cyd", "dan", "eve", "fay"):
        for route, asked in (
            ("chat/completions", {**body, "prompt_cache_key": key}),
            ("messages", {**body, "metadata": {"user_id": user_id + key}}),
            ("responses", {"input": "tea", "max_output_tokens": 1, "conversation": key}),
            ("responses", {"input": "tea", "max_output_tokens": 1, "conversation": {"id": key}}),
        ):
            async with httpx.AsyncClient(base_url=fleet.url, headers=SHOWN) as client:
                answer = await client.post(f"/v1/{route}", json=asked, timeout=120)
                answered.setdefault(key, set()).add(answer.headers["x-samovar-host"])

    assert all(len(hosts) == 1 for hosts in answered.values())
    assert len(set.union(*answered.values())) > 1
