"""Keys and tenants on the real server with a real model: from a file, rotated, told apart to the end."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import OpenAI

from tests.support.process import Samovar, clean_environment, conversation, samovar

SECRETS = {name: f"sk-samovar-xyzzy-{name}-0123456789" for name in ("ann", "bob", "boss", "scraper", "new")}
KEYS = f"""
[ann]
key = "{SECRETS["ann"]}"
quota_bytes = "4MiB"

[bob]
key = "{SECRETS["bob"]}"

[boss]
key = "{SECRETS["boss"]}"
scopes = ["admin"]

[scraper]
key = "{SECRETS["scraper"]}"
scopes = ["metrics"]
"""
TURNS = ("Hello, who are you?", "And what can you do for me today?")
WAIT_SECONDS = 30.0


class Keyed:
    """A server whose keys are known."""

    def __init__(self, server: Samovar, file: Path) -> None:
        self.server = server
        self.file = file

    def ask(self, name: str, method: str, path: str, **options: Any) -> httpx.Response:
        """One request with a key."""
        headers = {"authorization": f"Bearer {SECRETS[name]}"}
        return httpx.request(method, self.server.url + path, headers=headers, timeout=30, **options)

    def stats(self, name: str, tenant: str | None = None) -> dict[str, Any]:
        """`/v1/cache/stats` with a key."""
        params = {} if tenant is None else {"tenant": tenant}
        body: dict[str, Any] = (
            self.ask(name, "GET", "/v1/cache/stats", params=params).raise_for_status().json()
        )
        return body

    def talk(self, name: str) -> list[int]:
        """The same two turns under the same session name; how many tokens of each were cached."""
        with OpenAI(base_url=f"{self.server.url}/v1", api_key=SECRETS[name], max_retries=0) as client:
            said = conversation(client, self.server.model, TURNS, session="shared-name", max_tokens=8)
        return [cached for _, cached, _ in said]

    def hang_up(self, until: str) -> None:
        """SIGHUP, and wait for what the server says of it."""
        before = len(self.server.lines)
        self.server.signal(signal.SIGHUP)
        give_up = time.monotonic() + WAIT_SECONDS
        while not any(until in line for line in list(self.server.lines)[before:]):
            assert time.monotonic() < give_up, self.server.output
            time.sleep(0.01)


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory, tiny_folder: Any) -> Iterator[Keyed]:
    """One server for all tests here, each of which begins with an empty store."""
    folder = tmp_path_factory.mktemp("keyed")
    file = folder / "keys.toml"
    file.write_text(KEYS)
    with samovar(
        *("--model", str(tiny_folder("lfm2")), "--auth-keys-file", str(file)),
        *("--telemetry-log-level", "debug", "--snapshot-min-prefix-tokens", "8", "--no-snapshot-warmup"),
        folder=folder,
        environment={"SAMOVAR_AUTH__KEY": "sk-samovar-xyzzy-default-0123456789"},
    ) as server:
        yield Keyed(server, file)


@pytest.fixture(autouse=True)
def empty(keyed: Keyed) -> None:
    """Nothing is stored of what came before."""
    assert keyed.ask("boss", "POST", "/v1/cache/reset").status_code == 200


def test_two_tenants_with_the_same_words_share_nothing(keyed: Keyed) -> None:
    """Same prompts, same session name: each starts cold and reuses its own; the counters say so too."""
    before = {name: keyed.stats(name) for name in ("ann", "bob")}
    first = {name: keyed.talk(name) for name in ("ann", "bob")}
    assert first["ann"] == first["bob"]
    assert first["ann"][0] == 0
    assert first["ann"][1] > 0

    for name in ("ann", "bob"):
        stats = keyed.stats(name)
        assert stats["tenant"] == name
        outcomes, old = stats["snapshot_lookups_by_outcome"], before[name]["snapshot_lookups_by_outcome"]
        assert outcomes["empty"] - old["empty"] == 1, "it was told of what another has"
        assert outcomes["hit"] - old["hit"] == 1
        assert "snapshot_recommended_bytes" not in stats, "that is made of everybody's"
    mine, all_of_it = keyed.stats("ann"), keyed.stats("boss")
    assert all_of_it["snapshot_entries"] == mine["snapshot_entries"] + keyed.stats("bob")["snapshot_entries"]
    assert keyed.stats("boss", "ann") == mine
    assert mine["snapshot_capacity_bytes"] == 4 * 2**20


def test_nobody_removes_what_is_another_s(keyed: Keyed) -> None:
    """A session of the same name, a reset: what is left is exactly what belongs to the others."""
    keyed.talk("ann")
    keyed.talk("bob")
    held = {name: keyed.stats(name)["snapshot_entries"] for name in ("ann", "bob")}
    gone = keyed.ask("bob", "DELETE", "/v1/cache/sessions/shared-name").json()
    assert gone["freed_entries"] > 0
    # The system prompt's anchor belongs to no session.
    assert keyed.stats("bob")["snapshot_entries"] == held["bob"] - gone["freed_entries"]
    assert keyed.stats("ann")["snapshot_entries"] == held["ann"]
    assert keyed.ask("bob", "DELETE", "/v1/cache/sessions/shared-name").json()["freed_entries"] == 0
    for path in ("/v1/cache/reset", "/v1/cache/reset?tenant=ann", "/v1/cache/reset?tenant=bob"):
        assert keyed.ask("bob", "POST", path).status_code == 403
    assert keyed.stats("ann")["snapshot_entries"] == held["ann"]
    assert keyed.talk("bob")[0] == 0, "a session that was forgotten starts cold"
    assert keyed.ask("boss", "POST", "/v1/cache/reset?tenant=bob").status_code == 200
    assert keyed.stats("bob")["snapshot_entries"] == 0
    assert keyed.stats("ann")["snapshot_entries"] == held["ann"]


def test_each_scope_has_its_routes(keyed: Keyed) -> None:
    """The scraper scrapes and no more; the administrator does not talk; a setting's key does everything."""
    assert "samovar_snapshot_inserts_total" in keyed.ask("scraper", "GET", "/metrics").text
    assert keyed.ask("ann", "GET", "/metrics").status_code == 403
    body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
    for name in ("scraper", "boss"):
        assert keyed.ask(name, "POST", "/v1/chat/completions", json=body).status_code == 403
    headers = {"x-api-key": "sk-samovar-xyzzy-default-0123456789"}
    for method, path in (("GET", "/metrics"), ("GET", "/v1/cache/stats"), ("POST", "/v1/cache/reset")):
        assert httpx.request(method, keyed.server.url + path, headers=headers).status_code == 200
    assert httpx.get(keyed.server.url + "/readyz").status_code == 200


def test_keys_are_rotated_without_a_restart(keyed: Keyed) -> None:
    """SIGHUP reads the file again: the new secret works, the old does not, the tenant keeps its state."""
    keyed.talk("ann")
    held = keyed.stats("ann")["snapshot_entries"]
    keyed.file.write_text(KEYS.replace(SECRETS["ann"], SECRETS["new"]))
    keyed.hang_up("the API keys were read again: default, ann, bob, boss, scraper")
    assert keyed.ask("ann", "GET", "/v1/models").status_code == 401
    assert keyed.stats("new")["snapshot_entries"] == held > 0
    for bad in ("[ann", KEYS + "[more]\n"):
        keyed.file.write_text(bad)
        keyed.hang_up("the API keys stay as they were")
        assert keyed.ask("new", "GET", "/v1/models").status_code == 200
    keyed.file.write_text(KEYS)
    keyed.hang_up("the API keys were read again")
    assert keyed.ask("ann", "GET", "/v1/models").status_code == 200


def test_the_cache_command_takes_its_key_from_the_environment(keyed: Keyed) -> None:
    """A command that asks a server sends the key of SAMOVAR_AUTH__KEY, and says what it was refused for."""

    def run(*flags: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "app", "cache", "stats", "--url", keyed.server.url, *flags],
            env=clean_environment(**environment),
            capture_output=True,
            text=True,
            check=False,
        )

    asked = run("--json", SAMOVAR_AUTH__KEY=SECRETS["bob"])
    assert json.loads(asked.stdout)["tenant"] == "bob"
    for name, said in (("bob", "The tenant bob"), ("boss", "recommended")):
        assert said in run(SAMOVAR_AUTH__KEY=SECRETS[name]).stdout
    refused = run()
    assert refused.returncode == 1
    assert "needs an API key" in refused.stderr


def test_no_secret_is_in_any_line_and_admin_calls_are(keyed: Keyed) -> None:
    """Every line at debug level: who removed what, and not one secret of all that were sent."""
    keyed.ask("bob", "POST", "/v1/cache/reset")
    keyed.ask("bob", "DELETE", "/v1/cache/sessions/shared-name")
    httpx.get(keyed.server.url + "/v1/models", headers={"x-api-key": "sk-samovar-xyzzy-guessed"})
    body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
    keyed.ask("ann", "POST", "/v1/chat/completions", json=body)
    keyed.hang_up("the API keys were read again")
    lines = [json.loads(line) for line in keyed.server.lines_of_json()]
    calls = [line for line in lines if line["event"] == "admin call"]
    assert [(call["action"], call["key"], call["status"]) for call in calls[-2:]] == [
        ("POST /v1/cache/reset", "bob", 403),
        ("DELETE /v1/cache/sessions/{session}", "bob", 200),
    ]
    assert calls[-1]["session.hash"] != "shared-name"
    assert [line["key"] for line in lines if line["event"] == "request"][-1] == "ann"
    assert "xyzzy" not in keyed.server.output
    assert "shared-name" not in keyed.server.output


def test_a_public_address_needs_keys_or_a_clear_word(tmp_path: Path) -> None:
    """Without keys the start is refused, and told what would do; a file without keys is no keys."""

    def start(*flags: str) -> str:
        ran = subprocess.run(
            [sys.executable, "-m", "app", "serve", "--host", "0.0.0.0", *flags],
            cwd=tmp_path,
            env=clean_environment(PYTHONPATH=str(Path.cwd())),
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 1
        return ran.stderr

    assert "have API keys (auth.keys_file, auth.key)" in start()
    (tmp_path / "keys.toml").write_text("# none yet\n")
    assert "there is no key in it; `samovar keys new NAME` makes one" in start(
        "--auth-keys-file", "keys.toml"
    )
