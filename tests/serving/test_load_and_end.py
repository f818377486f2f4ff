"""Under load: clients that leave, a server that is told to go, starts that cannot succeed."""

import asyncio
import json
import random
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.support.process import Samovar, clean_environment, labelled, samovar

SEED = 7
CLIENTS = 16
END_OF_TURN = 257


async def stream(client: httpx.AsyncClient, body, *, leave_after: int | None = None):
    """Stream one reply; its text and finish reason, or None if we left after some chunks."""
    text, finish, chunks = "", None, 0
    async with client.stream("POST", "/v1/chat/completions", json=body | {"stream": True}) as answer:
        if answer.status_code != 200:
            await answer.aread()
            return answer.status_code
        async for line in answer.aiter_lines():
            if not line.startswith("data: ") or line == "data: [DONE]":
                continue
            frame = json.loads(line.removeprefix("data: "))
            if "error" in frame:
                return frame["error"]
            choice = frame["choices"][0]
            text += choice["delta"].get("content") or ""
            finish = choice["finish_reason"] or finish
            chunks += 1
            if leave_after is not None and chunks > leave_after:
                return None
    return text, finish


def question(number: int, max_tokens: int):
    return {
        "messages": [{"role": "user", "content": f"Question {number}: " + "tea " * (5 + 7 * number)}],
        "temperature": 0,
        "max_tokens": max_tokens,
        "prompt_cache_key": f"client-{number}",
        # A random model may end its turn at any time; here it talks until it is stopped.
        "logit_bias": {str(END_OF_TURN): -100},
    }


async def until(condition, *, seconds=30):
    """Wait for the server to come to rest."""
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("family", ["llama", "qwen3_next"])
async def test_sixteen_streams_of_which_half_leave(tmp_path, tiny_folder, family):
    """No request is stuck, no running count leaks, and those who stay get what they get alone."""
    rng = random.Random(SEED)
    leavers = set(rng.sample(range(CLIENTS), CLIENTS // 2))
    with samovar(
        "--model", str(tiny_folder(family)), "--scheduler-max-running", "6", folder=tmp_path
    ) as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=120) as client:
            alone = {
                n: await stream(client, question(n, 24) | {"cache_prompt": False})
                for n in range(CLIENTS)
                if n not in leavers
            }
            together = await asyncio.gather(
                *(
                    stream(
                        client,
                        question(n, 5000 if n in leavers else 24),
                        leave_after=rng.randrange(0, 12) if n in leavers else None,
                    )
                    for n in range(CLIENTS)
                )
            )

            async def at_rest():
                probe = (await client.get("/readyz")).json()
                return probe["running"] == probe["waiting"] == 0

            await until(at_rest)
        metrics = server.metrics()

    route = "/v1/chat/completions"
    assert {n: said for n, said in enumerate(together) if n not in leavers} == alone
    assert [together[n] for n in leavers] == [None] * len(leavers)
    assert metrics["samovar_requests_running"] == 0
    assert metrics[labelled("samovar_requests_total", outcome="cancelled", route=route)] == len(leavers)
    assert metrics[labelled("samovar_requests_total", outcome="completed", route=route)] == CLIENTS


async def test_a_client_that_leaves_before_the_answer_frees_its_place(tmp_path, tiny_folder):
    """Not streaming: the job is cancelled as well."""
    with samovar("--model", str(tiny_folder("llama")), folder=tmp_path) as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
            asking = asyncio.create_task(client.post("/v1/chat/completions", json=question(1, 8000)))

            async def running():
                return (await client.get("/readyz")).json()["running"] == 1

            async def free():
                return (await client.get("/readyz")).json()["running"] == 0

            await until(running)
            asking.cancel()
            await until(free)
        tokens = server.metrics()["samovar_generated_tokens_total"]

    assert tokens < 8000


async def test_a_full_queue_answers_429_and_says_when_to_come_back(tmp_path, tiny_folder):
    """What does not fit is refused at once; what fits is served."""
    flags = ("--scheduler-max-running", "1", "--scheduler-max-waiting", "1")
    with samovar("--model", str(tiny_folder("llama")), *flags, folder=tmp_path) as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=120) as client:
            answers = await asyncio.gather(
                *(client.post("/v1/chat/completions", json=question(n, 400)) for n in range(8))
            )

    codes = sorted(answer.status_code for answer in answers)
    refused = [answer for answer in answers if answer.status_code == 429]
    assert set(codes) == {200, 429}
    assert codes.count(200) >= 2
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
    assert all(answer.json()["error"]["code"] == "queue_full" for answer in refused)


async def test_sigterm_under_load_finishes_what_runs_and_refuses_what_is_new(tmp_path, tiny_folder):
    """Running streams end normally, new work gets 503 with Retry-After, and the exit code is 0."""
    with samovar("--model", str(tiny_folder("llama")), folder=tmp_path) as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=120) as client:
            streams = [asyncio.create_task(stream(client, question(n, 600))) for n in range(4)]

            async def running():
                return (await client.get("/readyz")).json()["running"] == len(streams)

            await until(running)
            server.signal(signal.SIGTERM)

            async def draining():
                return (await client.get("/readyz")).status_code == 503

            await until(draining)
            refused = await client.post("/v1/chat/completions", json=question(9, 5))
            live = await client.get("/livez")
            ended = await asyncio.gather(*streams)
        code = await asyncio.to_thread(server.wait_ended)

    assert refused.status_code == 503
    assert int(refused.headers["retry-after"]) >= 1
    assert live.status_code == 200
    assert [finish for _, finish in ended] == ["length"] * 4
    assert code == 0, server.output


async def test_streams_that_outlast_the_drain_end_with_an_error_frame(tmp_path, tiny_folder):
    """The deadline is kept politely, and the exit code is still 0."""
    with samovar("--model", str(tiny_folder("llama")), "--drain-seconds", "1", folder=tmp_path) as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=120) as client:
            endless = asyncio.create_task(stream(client, question(1, 8000)))

            async def running():
                return (await client.get("/readyz")).json()["running"] == 1

            await until(running)
            server.signal(signal.SIGTERM)
            ended = await endless
        code = await asyncio.to_thread(server.wait_ended)

    assert "shutting down" in ended["message"]
    assert code == 0, server.output


def run_to_end(*arguments: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "app", *arguments],
        cwd=folder,
        env=clean_environment(PYTHONPATH=str(Path.cwd()), **environment),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_model_that_does_not_exist_is_one_sentence_and_exit_code_1(tmp_path):
    """No traceback: what was wrong, and nothing else."""
    ended = run_to_end("serve", "--port", "0", "--model", "./no/such/model", folder=tmp_path)

    assert ended.returncode == 1
    assert "samovar: model folder no/such/model does not exist" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_folder_without_a_model_says_what_is_missing(tmp_path):
    """A folder that is no model is told apart from one that does not exist."""
    ended = run_to_end("serve", "--port", "0", "--model", str(tmp_path), folder=tmp_path)

    assert ended.returncode == 1
    assert "it has no config.json" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_port_in_use_is_one_sentence_and_exit_code_1(tmp_path, tiny_folder):
    """The start stops before any model is loaded."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        ended = run_to_end("serve", "--port", port, "--model", str(tiny_folder("llama")), folder=tmp_path)

    assert ended.returncode == 1
    assert port in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_start_states_the_stores_effective_limits_and_their_layers(tmp_path, tiny_folder):
    """The log says what holds and who set it."""
    environment = {"SAMOVAR_SNAPSHOTS__TTL": "15m"}
    with samovar(
        *("--model", str(tiny_folder("llama")), "--snapshot-capacity-bytes", "5MiB"),
        folder=tmp_path,
        environment=environment,
    ) as server:
        (line,) = (json.loads(text) for text in server.lines if '"snapshot store"' in text)
        stats = server.stats()

    assert (line["capacity_bytes"], line["ttl_seconds"]) == (5 * 2**20, 900.0)
    assert line["layers"] == {
        "capacity_bytes": "flag --snapshot-capacity-bytes",
        "ttl": "env SAMOVAR_SNAPSHOTS__TTL",
    }
    assert stats["snapshot_capacity_bytes"] == 5 * 2**20
    assert stats["snapshot_limits_from"]["ttl"] == "env SAMOVAR_SNAPSHOTS__TTL"


def test_five_starts_and_stops_end_with_exit_code_0(tmp_path, tiny_folder):
    """The engine thread leaves the device in order, every time."""
    codes = []
    for _ in range(5):
        server = Samovar("--model", str(tiny_folder("llama")), folder=tmp_path).wait_ready()
        server.client().chat.completions.create(
            model=server.model, messages=[{"role": "user", "content": "Hi"}], max_tokens=2
        )
        codes.append(server.stop())

    assert codes == [0] * 5
