"""A wall clock that is set, a machine that slept, a process that was stopped: what was promised holds."""

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from app.clock import monotonic
from app.supervision.start_journal import write_starts
from tests.support.otlp_receiver import OtlpReceiver
from tests.support.ports import free_port
from tests.support.process import Samovar, labelled, samovar, samples_of
from tests.support.talking import question, stream, until
from tests.support.wall_clock import WallClock

HOUR_SECONDS = 3600
JUMPS = (8, -8)
AFTERWARDS = 3
"""How many pieces of a stream are waited for once the clock was set."""
NEAR_SECONDS = 300
"""Far more than a test takes, and far less than a jump."""

SECRETS = {"all": "sk-clocks-all-0123456789", "few": "sk-clocks-few-0123456789"}
KEYS = f"""
[all]
key = "{SECRETS["all"]}"
tenant = "one"
scopes = ["inference", "metrics", "admin"]

[few]
key = "{SECRETS["few"]}"
tenant = "two"
requests_per_minute = 1
"""
FIRST = "A first question about tea, which is long enough to be kept."


@contextlib.asynccontextmanager
async def asking(server: Samovar, key: str = "all") -> AsyncIterator[httpx.AsyncClient]:
    """A client with a key."""
    headers = {"authorization": f"Bearer {SECRETS[key]}"}
    async with httpx.AsyncClient(base_url=server.url, headers=headers, timeout=60) as client:
        yield client


async def metrics_of(client: httpx.AsyncClient) -> dict[str, float]:
    """A scrape."""
    return samples_of((await client.get("/metrics")).raise_for_status().text)


async def has_stored_the_reply(client: httpx.AsyncClient) -> None:
    """Wait for the last state of a reply, which is stored after the reply was sent."""
    async with asyncio.timeout(30):
        while not (await metrics_of(client))[labelled("samovar_snapshot_inserts_total", origin="completion")]:
            await asyncio.sleep(0.01)


async def has_seen(client: httpx.AsyncClient, clock: WallClock) -> None:
    """Wait for the server to have noticed what its clock was set to."""
    async with asyncio.timeout(30):
        while True:
            at = (await metrics_of(client))["samovar_engine_last_step_timestamp_seconds"]
            if at == pytest.approx(time.time() + clock.offset_seconds, abs=NEAR_SECONDS):
                return
            await asyncio.sleep(0.02)


async def flow(client: httpx.AsyncClient, started: asyncio.Event, enough: asyncio.Event) -> int:
    """Follow a long reply until there is enough of it, and leave; how much came of it after that was said."""
    after = 0
    body = question(2, 100_000, stream=True)
    async with client.stream("POST", "/v1/chat/completions", json=body) as answer:
        async for line in answer.raise_for_status().aiter_lines():
            assert '"error"' not in line, line
            if '"content"' in line:
                started.set()
                after += enough.is_set()
            if after == AFTERWARDS:
                break
    return after


async def talk(client: httpx.AsyncClient, messages: list[dict[str, str]]) -> dict[str, Any]:
    """The next turn of a conversation, which is longer by two messages then; the answer."""
    body = {"messages": messages, "temperature": 0, "max_tokens": 8, "prompt_cache_key": "talk"}
    answer = (await client.post("/v1/chat/completions", json=body)).raise_for_status().json()
    messages += [answer["choices"][0]["message"], {"role": "user", "content": "And then?"}]
    return dict(answer)


def cached(answer: dict[str, Any]) -> int:
    """How many tokens of the prompt came out of the store."""
    return int(answer["usage"]["prompt_tokens_details"]["cached_tokens"])


@pytest.mark.slow
async def test_a_wall_clock_that_is_set_changes_nothing_that_was_promised(tmp_path, tiny_folder):
    """No snapshot expires, no limit moves, no stream ends, and spans are as long as they took."""
    clock = WallClock(tmp_path)
    (tmp_path / "keys.toml").write_text(KEYS)
    with (
        OtlpReceiver() as collector,
        samovar(
            *("--model", str(tiny_folder("llama")), "--snapshot-ttl", "1h", "--no-snapshot-warmup"),
            *("--auth-keys-file", "keys.toml", "--telemetry-otlp-endpoint", collector.endpoint),
            folder=tmp_path,
            environment=clock.environment,
        ) as server,
    ):
        async with asking(server) as client, asking(server, "few") as limited:
            messages = [{"role": "user", "content": FIRST}]
            turns = [await talk(client, messages)]
            spent = await limited.post("/v1/chat/completions", json=question(1, 2))
            for hours in JUMPS:
                started, jumped = asyncio.Event(), asyncio.Event()
                across = asyncio.create_task(flow(client, started, jumped))
                await started.wait()
                clock.set(hours * HOUR_SECONDS)
                await has_seen(client, clock)
                jumped.set()

                assert (await client.get("/readyz")).status_code == 200
                assert (await client.get("/livez")).status_code == 200
                refused = await limited.post("/v1/chat/completions", json=question(1, 2))
                assert (spent.status_code, refused.status_code) == (200, 429)
                assert 1 <= int(refused.headers["retry-after"]) <= 60
                turns.append(await talk(client, messages))
                assert await across == AFTERWARDS
                await until(client, running=0)
            metrics = await metrics_of(client)
        assert server.stop() == 0
        spans = collector.spans

    assert all(cached(turn) for turn in turns[1:])
    assert metrics[labelled("samovar_snapshot_removals_total", reason="ttl")] == 0
    assert metrics["samovar_snapshot_oldest_age_seconds"] < NEAR_SECONDS
    # What is a time of day follows the clock.
    later = [turn["created"] - turns[0]["created"] for turn in turns[1:]]
    assert later == [pytest.approx(hours * HOUR_SECONDS, abs=NEAR_SECONDS) for hours in JUMPS]
    lengths = [span.end_time_unix_nano - span.start_time_unix_nano for span in spans]
    assert min(lengths) >= 0
    assert max(lengths) < NEAR_SECONDS * 10**9
    assert {"POST /v1/chat/completions", "chat llama", "decode", "snapshot.clear"} <= {s.name for s in spans}


@pytest.mark.parametrize("hours", JUMPS)
async def test_a_start_that_is_held_back_is_let_go_by_a_wall_clock_that_is_set(tmp_path, tiny_folder, hours):
    """The journal's times are of days: those that are long ago, or have not been yet, hold nothing back."""
    clock = WallClock(tmp_path)
    port = free_port()
    now = time.time()
    rule = ("--crash-loop-starts", "2", "--crash-loop-seconds", "1h")
    write_starts(tmp_path / "state" / f"starts-127.0.0.1-{port}.json", (now - 20, now - 10))
    server = Samovar(
        *("--model", str(tiny_folder("llama")), "--port", str(port), *rule),
        folder=tmp_path,
        environment=clock.environment,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        async with httpx.AsyncClient(base_url=url, timeout=60) as client, asyncio.timeout(120):
            # Listening comes first, the look at the journal after it.
            while await phase_of(client) != "crash_loop":
                await asyncio.sleep(0.02)
            clock.set(hours * HOUR_SECONDS)
            await asyncio.to_thread(server.wait_ready)
            ready = await phase_of(client)
        assert server.stop() == 0, server.output
    finally:
        server.process.kill()

    assert ready == "ready"
    assert not list((tmp_path / "state").glob("starts-*.json")), "a stop in order empties the journal"


async def phase_of(client: httpx.AsyncClient) -> str:
    """What `/readyz` says; nothing while nobody listens."""
    with contextlib.suppress(httpx.TransportError):
        return str((await client.get("/readyz")).json()["phase"])
    return ""


async def test_a_process_that_was_stopped_goes_on_where_it_was(tmp_path, tiny_folder):
    """The stall that it was is over with the next step; a stream ends with the words it would have had."""
    stall_seconds = 0.5
    with samovar(
        *("--model", str(tiny_folder("llama")), "--scheduler-stall-seconds", f"{stall_seconds}s"),
        folder=tmp_path,
    ) as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
            undisturbed = await stream(client, question(7, 600))
            first = await talk(client, messages := [{"role": "user", "content": FIRST}])
            started = asyncio.Event()
            # Another session and the same words: nothing is reused.
            across = asyncio.create_task(
                stream(client, question(7, 600, prompt_cache_key="again"), started=started)
            )
            await started.wait()
            server.signal(signal.SIGSTOP)
            try:
                # What is tried here is that time goes by: several times what makes a stall.
                await asyncio.sleep(4 * stall_seconds)
            finally:
                server.signal(signal.SIGCONT)
            disturbed = await across
            async with asyncio.timeout(30):
                while (await client.get("/livez")).status_code != 200:
                    await asyncio.sleep(0.01)
            await until(client, running=0)
            ready = await client.get("/readyz")
            second = await talk(client, messages)
            metrics = await metrics_of(client)

    assert disturbed == undisturbed
    assert undisturbed[1] == "length"
    assert ready.status_code == 200
    assert first["choices"]
    assert cached(second) > 0
    assert metrics[labelled("samovar_snapshot_removals_total", reason="ttl")] == 0
    assert metrics["samovar_engine_rebuilds_total"] == 0


async def test_what_expires_while_a_process_is_stopped_is_what_nobody_used_for_that_long(
    tmp_path, tiny_folder
):
    """The clock of a stopped process goes on: what is due goes at its next tick, counted as expired."""
    with samovar(
        *("--model", str(tiny_folder("llama")), "--snapshot-ttl", "2s", "--no-snapshot-warmup"),
        folder=tmp_path,
    ) as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
            await talk(client, messages := [{"role": "user", "content": FIRST}])
            await has_stored_the_reply(client)
            server.signal(signal.SIGSTOP)
            try:
                await asyncio.sleep(3)
            finally:
                server.signal(signal.SIGCONT)
            late = await talk(client, messages)
            metrics = await metrics_of(client)

    assert cached(late) == 0
    assert metrics[labelled("samovar_snapshot_removals_total", reason="ttl")] >= 1
    inserts = sum(v for name, v in metrics.items() if name.startswith("samovar_snapshot_inserts_total"))
    removals = sum(v for name, v in metrics.items() if name.startswith("samovar_snapshot_removals_total"))
    entries = sum(v for name, v in metrics.items() if name.startswith("samovar_snapshot_entries"))
    assert inserts - removals == entries


def test_the_clock_of_the_core_stands_still_while_the_machine_sleeps():
    """It is one of the two that do by their manuals, and not the ones beside them that go on."""
    info = time.get_clock_info("monotonic")

    assert monotonic is time.monotonic
    assert info.implementation in {"clock_gettime(CLOCK_MONOTONIC)", "mach_absolute_time()"}
    assert not info.adjustable
