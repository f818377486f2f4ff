"""Whatever breaks in the engine: its requests are told, the server goes on, and what was stored is there."""

import asyncio
import signal

import httpx
import pytest

from tests.faults.conftest import faulty, faulty_program
from tests.support.faulty_server import UNABLE, Faults
from tests.support.process import Samovar, conversation, labelled, total
from tests.support.talking import question, stream, until

TURNS = ("A first question about tea.", "And a second one, about water.")
PLACES = [
    *(("prefill", "error"), ("prefill", "oom"), ("decode", "error"), ("decode", "oom")),
    *(("sampler", "error"), ("processor", "error")),
]


@pytest.fixture(scope="module")
def broken(tmp_path_factory, tiny_folder):
    """One server for all faults: each has to leave it as good as new."""
    with faulty(
        tiny_folder("llama"),
        *("--scheduler-max-rebuilds", "off", "--no-snapshot-warmup"),
        folder=tmp_path_factory.mktemp("broken"),
    ) as made:
        yield made


@pytest.mark.parametrize(("place", "kind"), PLACES)
async def test_a_step_that_fails_is_told_and_costs_nobody_else_anything(broken, place, kind):
    """Streams end with an error frame, whole answers with 500; the next turn still starts from the store."""
    server = broken.server
    session = f"{place}-{kind}"
    (first, _, _) = conversation(server.client(), server.model, TURNS[:1], session=session)[0]
    before = server.metrics()
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        started = asyncio.Event()
        streaming = asyncio.create_task(stream(client, question(1, 8000), started=started))
        await started.wait()
        if place == "prefill":
            broken.faults.order(place, kind)
        asking = asyncio.create_task(client.post("/v1/chat/completions", json=question(2, 8000)))
        if place != "prefill":
            await until(client, running=2)
            broken.faults.order(place, kind)
        answer = await asking
        _, finish, error = await streaming
        alive = await client.get("/livez")
    said = conversation(server.client(), server.model, TURNS, session=session)
    after = server.metrics()

    assert error is not None
    assert finish is None
    assert "the engine failed" in error["message"]
    assert answer.status_code == 500
    assert answer.json()["error"]["type"] == "server_error"
    assert UNABLE not in answer.text
    assert alive.status_code == 200
    assert after["samovar_engine_rebuilds_total"] == before["samovar_engine_rebuilds_total"] + 1
    assert said[0][0] == first
    assert all(cached for _, cached, _ in said)
    assert after["samovar_requests_running"] == after["samovar_requests_waiting"] == 0


def test_a_copy_that_memory_has_no_room_for_costs_the_copy_alone(broken):
    """The reply is whole, the batch is not rebuilt, and the state that was not kept is counted."""
    server = broken.server
    before = server.metrics()
    broken.faults.order("capture", "oom")
    ((_, _, _),) = conversation(server.client(), server.model, TURNS[:1], session="capture")
    after = server.metrics()
    ((_, cached, _),) = conversation(server.client(), server.model, TURNS[:1], session="capture")

    refused = labelled("samovar_snapshot_rejections_total", reason="low_memory")
    assert after[refused] == before[refused] + 1
    assert after["samovar_engine_rebuilds_total"] == before["samovar_engine_rebuilds_total"]
    assert cached == 0


def test_a_state_that_cannot_be_restored_is_computed_again(broken):
    """The reply is that of a cold start, and the miss has its own reason."""
    server = broken.server
    ((said, _, _),) = conversation(server.client(), server.model, TURNS[:1], session="restore")
    before = server.metrics()
    broken.faults.order("restore", "oom")
    ((again, cached, _),) = conversation(server.client(), server.model, TURNS[:1], session="restore")
    after = server.metrics()

    missed = labelled("samovar_snapshot_lookups_total", outcome="restore_failed")
    assert (again, cached) == (said, 0)
    assert after[missed] == before[missed] + 1


def test_a_listener_that_fails_breaks_no_request(broken):
    """The reply is as ever, and what telemetry lost is counted."""
    server = broken.server
    ((said, _, _),) = conversation(server.client(), server.model, TURNS[:1], session="listener")
    lost = labelled("samovar_telemetry_dropped_total", sink="metrics")
    before = server.metrics()[lost]
    broken.faults.order("listener", "error")
    ((again, cached, _),) = conversation(server.client(), server.model, TURNS[:1], session="listener")

    assert again == said
    assert cached
    assert server.metrics()[lost] == before + 1


def test_an_exporter_that_fails_breaks_no_request(tmp_path, tiny_folder):
    """Spans that could not be sent are counted as lost; replies are as ever."""
    where = tmp_path / "faults"
    Faults(where).order("exporter", "error")
    with faulty(
        tiny_folder("llama"), "--telemetry-otlp-endpoint", "http://127.0.0.1:9", folder=tmp_path
    ) as made:
        said = conversation(made.server.client(), made.server.model, TURNS, session="s")
        assert made.server.stop() == 0

    assert len(said) == len(TURNS)
    assert not made.faults.pending("exporter")
    assert "spans were lost" in made.server.output


async def test_an_engine_that_fails_again_and_again_takes_no_more_requests(tmp_path, tiny_folder):
    """After the limit: not ready and 503 with the reason, but alive, since a restart may not help."""
    with faulty(tiny_folder("llama"), "--scheduler-max-rebuilds", "2", folder=tmp_path) as made:
        async with httpx.AsyncClient(base_url=made.server.url, timeout=60) as client:
            statuses = []
            for number in range(2):
                made.faults.order("decode", "error")
                answer = await client.post("/v1/chat/completions", json=question(number, 20))
                statuses.append(answer.status_code)
            ready, live = await client.get("/readyz"), await client.get("/livez")
            refused = await client.post("/v1/chat/completions", json=question(9, 20))

    assert statuses == [500, 500]
    assert (ready.status_code, live.status_code) == (503, 200)
    assert ready.json()["phase"] == "failing"
    assert ready.json()["reason"].startswith("the engine failed 2 times within 600 seconds")
    assert refused.status_code == 503
    assert refused.json()["error"]["code"] == "engine_failing"
    assert int(refused.headers["retry-after"]) >= 1


async def test_an_engine_thread_that_is_killed_ends_the_process_with_one_sentence(tmp_path, tiny_folder):
    """Nobody goes on to believe in it: streams are told, and the supervisor gets exit code 1."""
    server = Samovar(
        "--model", str(tiny_folder("llama")), folder=tmp_path, program=faulty_program(tmp_path / "faults")
    ).wait_ready()
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        started = asyncio.Event()
        streaming = asyncio.create_task(stream(client, question(1, 8000), started=started))
        await started.wait()
        Faults(tmp_path / "faults").order("decode", "kill")
        _, finish, error = await streaming
    code = await asyncio.to_thread(server.wait_ended)

    assert finish is None
    assert error is not None
    assert code == 1
    assert server.lines[-1] == "samovar: the engine failed: SystemExit: 3"


async def test_a_step_that_never_ends_is_not_live_and_does_not_hold_up_the_end(tmp_path, tiny_folder):
    """The watchdog says so, new requests are refused, and a second signal ends the process in order."""
    flags = ("--scheduler-stall-seconds", "500ms", "--drain-seconds", "500ms")
    server = Samovar(
        *("--model", str(tiny_folder("llama")), *flags),
        folder=tmp_path,
        program=faulty_program(tmp_path / "faults"),
    ).wait_ready()
    Faults(tmp_path / "faults").order("decode", "hang")
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        stuck = asyncio.create_task(client.post("/v1/chat/completions", json=question(1, 20)))
        async with asyncio.timeout(30):
            while (live := await client.get("/livez")).status_code == 200:
                await asyncio.sleep(0.02)
        refused = await client.post("/v1/chat/completions", json=question(2, 20))
        server.signal(signal.SIGTERM)
        # Another one: two of a kind can arrive as one.
        server.signal(signal.SIGINT)
        answer = await stuck
    code = await asyncio.to_thread(server.wait_ended)

    assert live.json()["phase"] == "stalled"
    assert refused.status_code == 503
    assert answer.status_code == 503
    assert code == 1, server.output


def test_a_signal_while_the_model_loads_ends_in_order(tmp_path, tiny_folder):
    """A load cannot be interrupted; the process ends without it, and does not crash on its way out."""
    Faults(tmp_path / "faults").order("load", "hang")
    server = Samovar(
        "--model", str(tiny_folder("llama")), folder=tmp_path, program=faulty_program(tmp_path / "faults")
    )
    while Faults(tmp_path / "faults").pending("load"):
        assert server.process.poll() is None, server.output
    server.signal(signal.SIGTERM)

    assert server.wait_ended() == 0, server.output
    assert total({line: 1.0 for line in server.lines if "Fatal" in line}, "Fatal") == 0
