"""What happens to the server from outside: signals, kills, and a file system that fails."""

import asyncio
import shutil
import signal

import httpx
import pytest

from tests.faults.conftest import faulty_program, wait_ready_at
from tests.support.ports import free_port
from tests.support.process import Samovar, conversation, samovar
from tests.support.talking import question, stream, until
from tests.support.tiny import make_tiny_model

TURNS = ("A first question about tea.", "And a second one, about water.")


def test_a_model_whose_files_are_gone_is_served_to_the_end(tmp_path):
    """Everything is in memory: replies are as before. The next start says what is missing."""
    folder = make_tiny_model(tmp_path / "model", "llama")
    with samovar("--model", str(folder), folder=tmp_path) as server:
        before = conversation(server.client(), server.model, TURNS, session="before")
        shutil.rmtree(folder)
        after = conversation(server.client(), server.model, TURNS, session="after")
    again = Samovar("--model", str(folder), folder=tmp_path)

    assert [reply for reply, _, _ in after] == [reply for reply, _, _ in before]
    assert again.wait_ended() == 1
    assert again.lines[-1] == f"samovar: model folder {folder} does not exist"


def test_a_model_whose_files_change_is_served_as_it_was(tmp_path):
    """Weights that are written over do not reach replies before the next start."""
    folder = make_tiny_model(tmp_path / "model", "llama")
    with samovar("--model", str(folder), folder=tmp_path) as server:
        before = conversation(server.client(), server.model, TURNS, session="before")
        for file in folder.iterdir():
            file.write_bytes(b"\0" * file.stat().st_size)
        after = conversation(server.client(), server.model, TURNS, session="after")

    assert [reply for reply, _, _ in after] == [reply for reply, _, _ in before]


def test_a_disk_that_is_full_loses_log_lines_and_no_request(tmp_path, tiny_folder):
    """Every write to the log fails; requests are answered, probes are green, and the stop is in order."""
    port = free_port()
    server = Samovar(
        *("--model", str(tiny_folder("llama")), "--port", str(port), "--telemetry-log-file", "/dev/full"),
        folder=tmp_path,
    )
    try:
        wait_ready_at(server, port)
        said = conversation(server.client(), "llama", TURNS, session="s")
        assert server.get("/livez").status_code == 200
        assert server.stop() == 0
    finally:
        server.process.kill()

    assert all(reply for reply, _, _ in said)
    assert said[1][1] > 0


@pytest.mark.parametrize("variable", ["HOME", "TMPDIR"])
def test_a_home_or_a_temporary_folder_that_cannot_be_written_is_no_hindrance(tmp_path, tiny_folder, variable):
    """Nothing of what serving a model's folder takes is written there."""
    # The kernel's own file system: not even root can make a file there.
    with samovar(
        *("--model", str(tiny_folder("llama"))), folder=tmp_path, environment={variable: "/proc/nowhere"}
    ) as server:
        said = conversation(server.client(), server.model, TURNS, session="s")

    assert said[1][1] > 0


def test_a_journal_of_starts_that_cannot_be_written_is_a_warning(tmp_path, tiny_folder):
    """The server starts and serves; the log says that crash loops go unnoticed."""
    port = str(free_port())
    server = Samovar(
        *("--model", str(tiny_folder("llama")), "--port", port, "--state-folder", "/proc/nowhere"),
        folder=tmp_path,
    ).wait_ready()

    assert server.get("/readyz").status_code == 200
    assert server.stop() == 0
    assert any('"warning"' in line and "/proc/nowhere" in line for line in server.lines), server.output


def test_the_demo_model_without_a_folder_to_unpack_it_in_is_one_sentence(tmp_path):
    """No traceback: what could not be written."""
    server = Samovar(
        folder=tmp_path, environment={"HOME": "/proc/nowhere", "XDG_CACHE_HOME": "/proc/nowhere"}
    )

    assert server.wait_ended() == 1
    assert server.lines[-1].startswith("samovar: ")
    assert "/proc/nowhere" in server.lines[-1]
    assert "Traceback" not in server.output


async def test_after_a_kill_the_next_start_serves_the_same_words(tmp_path, tiny_folder):
    """Snapshots are promised until the process ends, and no longer; replies do not depend on them."""
    port = free_port()
    flags = ("--model", str(tiny_folder("llama")), "--port", str(port))
    server = Samovar(*flags, folder=tmp_path).wait_ready()
    before = conversation(server.client(), server.model, TURNS, session="s")
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        streaming = asyncio.create_task(stream(client, question(1, 8000)))
        await until(client, running=1)
        server.signal(signal.SIGKILL)
        with pytest.raises(httpx.TransportError):
            await streaming
    assert await asyncio.to_thread(server.wait_ended) == -signal.SIGKILL
    with samovar(*flags, folder=tmp_path) as again:
        metrics = again.metrics()
        after = conversation(again.client(), again.model, TURNS, session="s")

    assert metrics["samovar_starts_recent"] == 2, "the start that was killed is remembered"
    assert after[0][1] == 0, "nothing of before is used"
    assert [reply for reply, _, _ in after] == [reply for reply, _, _ in before]


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["start", "load", "idle", "prefill", "decode"])
async def test_a_signal_in_any_phase_ends_in_order(tmp_path, tiny_folder, phase):
    """Exit code 0 without a crash on the way out, and who was being answered hears a last word."""
    where = tmp_path / "faults"
    server = Samovar(
        *("--model", str(tiny_folder("llama")), "--drain-seconds", "500ms"),
        folder=tmp_path,
        program=faulty_program(where),
    )
    told = None
    if phase in ("start", "load"):
        # Before the first line is written nothing is set up that could end in order.
        while not any(phase == "start" or '"loading' in line for line in server.lines):
            assert server.process.poll() is None, server.output
            await asyncio.sleep(0.001)
        server.signal(signal.SIGTERM)
    else:
        await asyncio.to_thread(server.wait_ready)
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
            body = question(1, 8000)
            if phase == "prefill":
                body["messages"] = [{"role": "user", "content": "tea " * 1500}]
            asking = None
            if phase != "idle":
                asking = asyncio.create_task(stream(client, body))
                await until(client, running=1)
            server.signal(signal.SIGTERM)
            told = await asking if asking else None
    code = await asyncio.to_thread(server.wait_ended)

    assert code == 0, server.output
    assert "Traceback" not in server.output
    assert told is None or told[2] is not None or told[1] is not None
