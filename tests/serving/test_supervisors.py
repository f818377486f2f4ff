"""The real server under a supervisor: what systemd is told of it, and a log that is moved away."""

import contextlib
import signal
import socket
import time

from tests.support.process import READY_SECONDS, Samovar


@contextlib.contextmanager
def service_manager(folder):
    """systemd's end of NOTIFY_SOCKET; yields a function that reads messages until one has a line."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        path = str(folder / "notify")
        receiver.bind(path)
        receiver.settimeout(READY_SECONDS)
        heard: list[str] = []

        def until(line):
            while line not in heard:
                heard.extend(receiver.recv(4096).decode().splitlines())
            return heard

        yield path, until


def test_systemd_hears_of_the_load_the_readiness_the_watchdog_and_the_drain(tmp_path, tiny_folder):
    """READY comes with the loaded model and not before, WATCHDOG goes on, STOPPING comes with SIGTERM."""
    with service_manager(tmp_path) as (path, until):
        server = Samovar(
            *("--model", str(tiny_folder("llama"))),
            folder=tmp_path,
            environment={"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "200000"},
        )
        try:
            loading = until("STATUS=the model is being loaded")
            assert "READY=1" not in loading
            until("READY=1")
            server.wait_ready()
            ready = until(f"STATUS=serves {server.model} at {server.url}")
            assert "STOPPING=1" not in ready
            beats = ready.count("WATCHDOG=1")
            ready.clear()
            until("WATCHDOG=1")
            server.signal(signal.SIGTERM)
            until("STOPPING=1")
            assert server.wait_ended() == 0, server.output
        finally:
            server.process.kill()
            server.wait_ended()

    assert beats > 0


def test_the_log_goes_on_in_a_new_file_when_it_is_moved(tmp_path, tiny_folder):
    """As newsyslog does it: a rename, no signal. Greeting and log lines are in the file, and nowhere else."""
    log = tmp_path / "samovar.log"
    moved = tmp_path / "samovar.log.0"
    server = Samovar(
        *("--model", str(tiny_folder("llama")), "--telemetry-log-file", str(log)), folder=tmp_path
    )
    try:
        give_up = time.monotonic() + READY_SECONDS
        while "Samovar serves " not in (log.read_text() if log.exists() else ""):
            assert time.monotonic() < give_up
            assert server.process.poll() is None
            time.sleep(0.02)
        log.rename(moved)
        while not log.exists():
            assert time.monotonic() < give_up
            time.sleep(0.02)
        assert server.stop() == 0
    finally:
        server.process.kill()
        server.wait_ended()

    assert server.lines == []
    assert '"snapshot store"' in moved.read_text()
