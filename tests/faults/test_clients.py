"""Clients that misbehave: they leave by the thousand, stop reading, ask for more than there is."""

import asyncio
import contextlib
import json
import random

import httpx
import pytest

from tests.support.process import conversation, labelled, samovar, total
from tests.support.talking import question, stream, until
from tests.support.tiny import make_tiny_model

LEAVERS = 1000
AT_A_TIME = 50
FILLER = "tea " * 75
ROOM_BYTES = 48 * 2**20


async def leave(address: tuple[str, int], body: bytes, bytes_read: int) -> None:
    """Ask, read a little, and drop the connection."""
    reader, writer = await asyncio.open_connection(*address)
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body)
    writer.write(head + body)
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
        await writer.drain()
        await reader.readexactly(bytes_read)
    writer.transport.abort()


@pytest.mark.slow
async def test_a_thousand_clients_that_leave_cost_nobody_a_place(tmp_path, tiny_folder):
    """Streaming or not, before or amid the answer: no place, no entry and no connection is lost."""
    rng = random.Random(11)
    with samovar(
        *("--model", str(tiny_folder("llama")), "--scheduler-max-running", "8", "--snapshot-ttl", "1s"),
        *("--scheduler-max-waiting", str(AT_A_TIME), "--telemetry-log-level", "error"),
        folder=tmp_path,
    ) as server:
        host, _, port = server.url.removeprefix("http://").rpartition(":")
        places = asyncio.Semaphore(AT_A_TIME)

        async def one(number: int) -> None:
            async with places:
                # Who waits for a whole answer leaves before it; who streams, amid it.
                read = rng.choice((0, 0, 20, 300, 900))
                body = question(number, 2000, stream=bool(read))
                await leave((host, int(port)), json.dumps(body).encode(), read)

        async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
            await asyncio.gather(*(one(number) for number in range(LEAVERS)))
            await until(client, running=0)
            text, finish, error = await stream(client, question(1, 8))
        metrics = server.metrics()

    assert (finish, error) == ("length", None)
    assert text
    ended = total(metrics, "samovar_requests_total")
    assert ended >= LEAVERS * 0.9, "those that left before they were read are no requests"
    assert metrics[labelled("samovar_requests_total", outcome="failed", route="/v1/chat/completions")] == 0
    assert metrics["samovar_engine_rebuilds_total"] == 0
    inserts = total(metrics, "samovar_snapshot_inserts_total")
    removals = total(metrics, "samovar_snapshot_removals_total")
    assert inserts - removals == total(metrics, "samovar_snapshot_entries")


async def test_a_client_that_stops_reading_holds_up_nobody(tmp_path, tiny_folder):
    """Its reply goes on into buffers; others are answered beside it, and its place is free when it leaves."""
    with samovar("--model", str(tiny_folder("llama")), folder=tmp_path) as server:
        host, _, port = server.url.removeprefix("http://").rpartition(":")
        # A small limit: beyond it asyncio stops reading the socket.
        _, writer = await asyncio.open_connection(host, int(port), limit=256)
        body = json.dumps(question(1, 8000, stream=True)).encode()
        writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body
        )
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
            await until(client, running=1)
            others = await asyncio.gather(*(stream(client, question(n, 40)) for n in range(2, 6)))
            writer.transport.abort()
            await until(client, running=0)

    assert [finish for _, finish, _ in others] == ["length"] * 4


async def test_waiting_too_long_is_503_and_says_when_to_come_back(tmp_path, tiny_folder):
    """Who waits is turned away after the time; who runs goes on."""
    flags = ("--scheduler-max-running", "1", "--scheduler-queue-seconds", "300ms")
    with samovar("--model", str(tiny_folder("llama")), *flags, folder=tmp_path) as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
            running = asyncio.create_task(stream(client, question(1, 8000)))
            await until(client, running=1)
            answer = await client.post("/v1/chat/completions", json=question(2, 8))
            still = (await client.get("/readyz")).json()["running"]
            running.cancel()

    assert answer.status_code == 503
    assert "waited for a place for too long" in answer.json()["error"]["message"]
    assert int(answer.headers["retry-after"]) >= 1
    assert still == 1


@pytest.mark.slow
async def test_snapshots_make_way_and_requests_wait_where_memory_is_short(tmp_path):
    """Conversations fill what there is; a burst of requests takes it back, and each of them is served."""
    # Of few layers with wide heads: a state of 8 KiB a token.
    wide = {"num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 128}
    model = str(make_tiny_model(tmp_path / "wide", "llama", changes=wide))
    with samovar("--model", model, folder=tmp_path) as server:
        used = int(server.metrics()[labelled("samovar_device_memory_bytes", kind="footprint")])
    # Far more than one request needs and far less than all of them, whatever the process takes this time.
    flags = ("--memory-limit-bytes", str(used + ROOM_BYTES), "--memory-headroom-bytes", "1")
    with samovar(
        *("--model", model, "--no-snapshot-warmup", "--snapshot-capacity-bytes", "1GiB", *flags),
        folder=tmp_path,
    ) as server:
        for number in range(30):
            conversation(
                server.client(), server.model, [f"{number} {FILLER}"], session=str(number), max_tokens=1
            )
        before = server.metrics()
        async with httpx.AsyncClient(base_url=server.url, timeout=120) as client:
            answers = await asyncio.gather(
                *(
                    client.post(
                        "/v1/chat/completions",
                        json=question(n, 100, messages=[{"role": "user", "content": f"{n} {FILLER}"}]),
                    )
                    for n in range(100, 116)
                )
            )
        after = server.metrics()

    pressure = labelled("samovar_snapshot_removals_total", reason="pressure")
    assert {answer.status_code for answer in answers} == {200}
    assert {answer.json()["usage"]["completion_tokens"] for answer in answers} == {100}
    assert after[pressure] > before[pressure]
    assert after["samovar_engine_rebuilds_total"] == 0
