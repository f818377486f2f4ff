"""The server as a process: load, drain, deadline, force, failure; what is answered then, the exit code."""

import asyncio
import contextlib
import json
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tests.support.scripted_engine import WAIT_SECONDS
from tests.support.serving import RawClient, RawClients, chat_body

CHAT = "/v1/chat/completions"


class Process:
    """A started server, its address and its output."""

    def __init__(
        self, process: asyncio.subprocess.Process, client: httpx.AsyncClient, sockets: RawClients, url: str
    ) -> None:
        self.process = process
        self.client = client
        self.sockets = sockets
        self.url = url

    async def until(self, path: str, status: int) -> httpx.Response:
        """Ask until the answer has that status; the port may not be open yet."""
        async with asyncio.timeout(WAIT_SECONDS):
            while True:
                with contextlib.suppress(httpx.TransportError):
                    response = await self.client.get(path)
                    if response.status_code == status:
                        return response
                await asyncio.sleep(0.01)

    async def until_load(self, *, running: int, waiting: int) -> None:
        """Ask until the engine has so many jobs."""
        async with asyncio.timeout(WAIT_SECONDS):
            while True:
                probe = (await self.client.get("/livez")).json()
                if (probe["running"], probe["waiting"]) == (running, waiting):
                    return
                await asyncio.sleep(0.01)

    async def ask(self, content: str, **fields: object) -> httpx.Response:
        """One chat request."""
        message = {"role": "user", "content": content}
        return await self.client.post(CHAT, json=chat_body(messages=[message], **fields))

    async def stream(self, content: str) -> RawClient:
        """A stream that has begun."""
        client = await self.sockets.connect()
        await client.post(messages=[{"role": "user", "content": content}], stream=True)
        await client.read_until(b'"role":"assistant"')
        return client

    async def until_written(self, line: str) -> None:
        """Read its standard output up to a line."""
        assert self.process.stdout is not None
        async with asyncio.timeout(WAIT_SECONDS):
            while (await self.process.stdout.readline()).decode() != f"{line}\n":
                pass

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    async def end(self) -> tuple[int, str, str]:
        """Wait for the end: exit code and what was written."""
        out, err = await asyncio.wait_for(self.process.communicate(), WAIT_SECONDS)
        assert self.process.returncode is not None
        return self.process.returncode, out.decode(), err.decode()


@contextlib.asynccontextmanager
async def started(*flags: str) -> AsyncIterator[Process]:
    """A scripted server for a block; killed at its end if it is still there."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-W", "error", "-m", "tests.support.scripted_server"),
        *flags,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), WAIT_SECONDS)
        url = f"http://127.0.0.1:{int(line.split()[1])}"
        async with (
            httpx.AsyncClient(base_url=url, timeout=WAIT_SECONDS) as client,
            RawClients(url) as sockets,
        ):
            yield Process(process, client, sockets, url)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


async def test_probes_answer_while_the_model_loads() -> None:
    """Before the load ends the server is alive, not started, not ready, and refuses work with Retry-After."""
    async with started("--loading") as server:
        await server.until("/livez", 200)
        assert (await server.client.get("/startupz")).status_code == 503
        assert (await server.client.get("/readyz")).status_code == 503
        refused = await server.ask("echo Hi")
        assert refused.status_code == 503
        assert refused.headers["retry-after"]

        server.signal(signal.SIGUSR1)
        await server.until("/readyz", 200)
        assert (await server.client.get("/startupz")).status_code == 200
        assert (await server.ask("echo Hi")).json()["choices"][0]["message"]["content"] == "Hi"

        server.signal(signal.SIGTERM)
        code, out, err = await server.end()
        assert (code, err) == (0, "")
        greeting, *hints, closed = out.splitlines()
        assert greeting == f"Samovar serves scripted at {server.url}"
        assert any(f"curl {server.url}{CHAT}" in hint for hint in hints)
        assert any(f"{server.url}/metrics" in hint for hint in hints)
        assert closed == "closed"


async def test_failed_load_ends_the_process_with_one_sentence() -> None:
    """A model that cannot be loaded ends the server: exit code 1, one line, no greeting, all closed."""
    async with started("--loading") as server:
        await server.until("/livez", 200)
        server.signal(signal.SIGUSR2)

        code, out, err = await server.end()
        assert code == 1
        assert err == "The model cannot be used: it is scripted to fail.\n"
        assert out == "closed\n"


async def test_signal_while_loading_ends_at_once() -> None:
    """Nobody is being served yet, so nothing is waited for."""
    async with started("--loading") as server:
        await server.until("/livez", 200)
        server.signal(signal.SIGINT)

        assert await server.end() == (0, "closed\n", "")


async def test_engine_that_fails_later_ends_its_streams_and_the_process() -> None:
    """A crash of the engine is told to those who wait, and the process exits so that it is started anew."""
    async with started() as server:
        await server.until("/readyz", 200)
        client = await server.stream("forever")
        server.signal(signal.SIGUSR2)

        rest = await client.read_to_end()
        assert b'"error"' in rest
        code, _, err = await server.end()
        assert code == 1
        assert err.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_drain_answers_the_old_and_refuses_the_new(number: signal.Signals) -> None:
    """After a signal: not ready, new work gets a real 503, what runs is finished, and the exit code is 0."""
    async with started() as server:
        await server.until("/readyz", 200)
        text = "a long goodbye " * 20
        client = await server.stream(f"echo {text}")
        whole = asyncio.create_task(server.ask(f"echo {text}"))
        await server.until_load(running=2, waiting=0)
        server.signal(number)

        refusal = await server.until("/readyz", 503)
        assert refusal.json()["phase"] == "draining"
        assert (await server.client.get("/livez")).status_code == 200
        refused = await server.ask("echo Hi")
        assert refused.status_code == 503
        assert refused.headers["retry-after"]

        rest = await client.read_until(b"data: [DONE]\n\n")
        assert b'"error"' not in rest
        assert (await whole).json()["choices"][0]["message"]["content"] == text
        code, _, err = await server.end()
        assert (code, err) == (0, "")


async def test_deadline_ends_streams_politely() -> None:
    """What still runs at the drain's deadline gets an error as its last event, and the exit code is 0."""
    async with started("--drain-seconds", "0.3") as server:
        await server.until("/readyz", 200)
        client = await server.stream("forever")
        blocked = asyncio.create_task(server.ask("never answered"))
        await client.read_until(b'"content":"x')
        server.signal(signal.SIGTERM)

        rest = (await client.read_to_end()).split(b"\r\n")
        # Chunked transfer: the last event, then an empty chunk, which is a response that ended as it should.
        assert rest[-3:] == [b"0", b"", b""]
        error = json.loads(next(line for line in rest if b'"error"' in line).removeprefix(b"data: "))
        assert "shutting down" in error["error"]["message"]
        assert (await blocked).status_code == 503
        code, _, err = await server.end()
        assert (code, err) == (0, "")


async def test_second_signal_does_not_wait() -> None:
    """Told twice, the server ends what runs at once, still with a last event, and says so by exit code 1."""
    async with started("--drain-seconds", "600") as server:
        await server.until("/readyz", 200)
        client = await server.stream("forever")
        server.signal(signal.SIGTERM)
        await server.until("/readyz", 503)
        server.signal(signal.SIGTERM)

        assert b'"error"' in await client.read_to_end()
        code, out, err = await server.end()
        assert (code, err) == (1, "")
        assert out.endswith("closed\n")


async def test_third_signal_ends_even_a_server_that_hangs() -> None:
    """Whatever hangs at the end, a third signal is the last: exit code 1 at once."""
    async with started("--hanging") as server:
        await server.until("/readyz", 200)
        server.signal(signal.SIGTERM)
        await server.until_written("closed")
        server.signal(signal.SIGTERM)
        server.signal(signal.SIGINT)

        code, _, err = await server.end()
        assert (code, err) == (1, "")


async def test_client_that_does_not_read_does_not_hold_up_the_end() -> None:
    """A stream nobody reads cannot keep the process from ending."""
    async with started("--drain-seconds", "0.1") as server:
        await server.until("/readyz", 200)
        clients = [await server.sockets.connect() for _ in range(3)]
        for client in clients:
            await client.post(messages=[{"role": "user", "content": "flood"}], stream=True)
        await server.until_load(running=0, waiting=3)
        server.signal(signal.SIGTERM)

        code, _, err = await server.end()
        assert (code, err) == (0, "")


@pytest.mark.slow
async def test_five_starts_and_stops_are_all_clean() -> None:
    """Start, answer, stop: five times the same, with exit code 0 and not a word of complaint."""
    for _ in range(5):
        async with started() as server:
            await server.until("/readyz", 200)
            client = await server.stream("echo Hi")
            await client.leave()
            assert (await server.ask("echo Hi")).status_code == 200
            server.signal(signal.SIGTERM)

            code, _, err = await server.end()
            assert (code, err) == (0, "")


async def test_port_in_use_is_one_clear_sentence(tmp_path: Path) -> None:
    """A taken port stops the real command at once: exit code 1, one line with the port and the way out."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "app", "serve", "--port", str(port)),
            cwd=tmp_path,
            env={"PYTHONPATH": str(Path.cwd()), "PATH": ""},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(process.communicate(), 60)

    assert process.returncode == 1
    assert out == b""
    (line,) = err.decode().splitlines()
    assert f"Port {port} on 127.0.0.1 is in use" in line
    assert "--port" in line
