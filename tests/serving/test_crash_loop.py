"""A server that is killed again and again stops loading its model, says so, and can be let go on."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from tests.support.ports import free_port
from tests.support.process import READY_SECONDS, Samovar, clean_environment

LIMIT = 2


class Host:
    """One server's place: its port, its model, its folder for what outlives it."""

    def __init__(self, folder, model):
        self.port = free_port()
        self.folder = folder
        self.state = folder / "state"
        self.url = f"http://127.0.0.1:{self.port}"
        self.flags = (
            *("--port", str(self.port), "--state-folder", str(self.state)),
            *("--crash-loop-starts", str(LIMIT), "--crash-loop-seconds", "1h"),
        )
        self.model = ("--model", str(model))

    def start(self):
        return Samovar(*self.model, *self.flags, folder=self.folder)

    @property
    def starts(self):
        """How many starts the journal has."""
        files = list(self.state.glob("starts-*.json"))
        return len(json.loads(files[0].read_text())["unix_seconds"]) if files else 0

    def crash(self):
        """Start it, and kill it once it has begun to load."""
        before = self.starts
        server = self.start()
        self.until(server, lambda: self.starts > before)
        server.signal(signal.SIGKILL)
        server.wait_ended()

    def ask(self, path):
        """One GET; None while nobody listens."""
        try:
            return httpx.get(self.url + path, timeout=30)
        except httpx.TransportError:
            return None

    def until(self, server, condition):
        """Poll for what the server does by itself."""
        give_up = time.monotonic() + READY_SECONDS
        while not condition():
            assert server.process.poll() is None, server.output
            assert time.monotonic() < give_up, server.output
            time.sleep(0.02)

    def samovar_starts(self, verb):
        """`samovar starts …` of the same server."""
        return subprocess.run(
            [sys.executable, "-m", "app", "starts", verb, *self.flags],
            cwd=self.folder,
            env=clean_environment(PYTHONPATH=str(Path.cwd())),
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout


@pytest.fixture
def host(tmp_path, tiny_folder):
    return Host(tmp_path, tiny_folder("llama"))


@pytest.mark.slow
def test_a_server_that_is_killed_again_and_again_is_held_back_until_it_is_let_go(host):
    """Alive, not ready, no model loaded, on a gauge; `samovar starts clear` ends it; a stop forgives all."""
    for _ in range(LIMIT):
        host.crash()
    server = host.start()
    try:
        host.until(server, lambda: (answer := host.ask("/readyz")) and "crash_loop" in answer.text)
        ready = host.ask("/readyz")
        metrics = host.ask("/metrics").text.splitlines()
        shown = host.samovar_starts("show")
        refused = httpx.post(
            f"{host.url}/v1/chat/completions", json={"messages": [{"role": "user", "content": "Hi"}]}
        )

        assert (host.ask("/livez").status_code, host.ask("/startupz").status_code) == (200, 503)
        assert ready.status_code == 503
        assert ready.json()["reason"].startswith(f"crash loop: {LIMIT} starts within 3600 seconds")
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "engine_crash_loop"
        assert {"samovar_crash_loop 1.0", f"samovar_starts_recent {LIMIT:.1f}"} <= set(metrics)
        assert not any(line.startswith("samovar_model_info{") for line in metrics)
        assert f"{LIMIT} of {LIMIT} starts" in shown
        assert sum('"crash loop: ' in line for line in server.lines) == 1

        host.samovar_starts("clear")
        server.wait_ready()
        metrics = host.ask("/metrics").text.splitlines()
        assert {"samovar_crash_loop 0.0", "samovar_starts_recent 1.0"} <= set(metrics)
        assert host.ask("/readyz").status_code == 200
        assert server.stop() == 0, server.output
        assert host.starts == 0
    finally:
        server.process.kill()
        server.wait_ended()


def test_a_wrong_model_is_no_crash(host):
    """A start that says what to change can be repeated as often as it takes."""
    host.model = ("--model", "./no/such/model")
    server = host.start()
    assert server.wait_ended() == 1
    assert "does not exist" in server.output
    assert host.starts == 0


def test_a_held_server_stops_at_once_and_starts_afresh(host):
    """SIGTERM in a crash loop is a clean stop: exit code 0, and nothing is held against the next start."""
    host.state.mkdir()
    now = time.time()
    journal = host.state / f"starts-127.0.0.1-{host.port}.json"
    journal.write_text(json.dumps({"format": 1, "unix_seconds": [now - 2, now - 1]}))
    server = host.start()
    host.until(server, lambda: (answer := host.ask("/readyz")) and "crash_loop" in answer.text)

    assert server.stop() == 0, server.output
    assert not journal.exists()
