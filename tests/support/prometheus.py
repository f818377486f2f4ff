"""The programs of Prometheus as real processes: promtool, amtool, the server and the Alertmanager."""

import contextlib
import json
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import httpx
import yaml

from tests.support.ports import free_port

WAIT_SECONDS = 60
ASK_SECONDS = 0.01
"""Between two questions of who waits for an answer to change."""


def tool(name: str) -> str:
    """Where a program is; a missing one is a failure."""
    path = shutil.which(name)
    assert path is not None, f"{name} is not installed; .ci/run installs what the tests need"
    return path


def told(program: str, *arguments: str, folder: Path | None = None) -> str:
    """What a program said of all being well."""
    done = run(program, *arguments, folder=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def run(program: str, *arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program to its end."""
    return subprocess.run(
        [tool(program), *arguments], capture_output=True, text=True, check=False, cwd=folder, timeout=120
    )


class Daemon:
    """A program with HTTP that runs until the block ends; its output goes to a file in its folder."""

    def __init__(self, folder: Path, port: int, *command: str) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._log = folder / f"{Path(command[0]).name}.log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=subprocess.STDOUT)

    def wait_ready(self) -> Self:
        """Ask until it says that it is ready."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not self._is_ready():
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, self._log.read_text()
            time.sleep(ASK_SECONDS)
        return self

    def _is_ready(self) -> bool:
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(f"{self.url}/-/ready").status_code == 200
        return False

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(WAIT_SECONDS)


class Prometheus(Daemon):
    """A Prometheus server, asked over its API."""

    def query(self, query: str, at: float | None = None) -> list[dict[str, Any]]:
        """The result of an instant query, at a Unix time or now."""
        moment = {} if at is None else {"time": at}
        answer = httpx.get(f"{self.url}/api/v1/query", params={"query": query, **moment}, timeout=30)
        document = answer.json()
        assert document["status"] == "success", document
        result: list[dict[str, Any]] = document["data"]["result"]
        return result

    def value(self, query: str) -> float | None:
        """The only sample of an instant query; None where there is none."""
        result = self.query(query)
        assert len(result) <= 1, result
        return float(result[0]["value"][1]) if result else None

    def wait_for(self, query: str) -> list[dict[str, Any]]:
        """Ask until there is a result."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not (result := self.query(query)):
            assert time.monotonic() < deadline, f"never any result: {query}"
            time.sleep(ASK_SECONDS)
        return result


@contextlib.contextmanager
def prometheus(config: Mapping[str, Any], folder: Path, *flags: str) -> Iterator[Prometheus]:
    """A ready Prometheus server with that configuration; `folder` is its working directory."""
    (folder / "prometheus.yml").write_text(json.dumps(config))
    told("promtool", "check", "config", "prometheus.yml", folder=folder)
    port = free_port()
    daemon = Prometheus(
        folder,
        port,
        tool("prometheus"),
        "--config.file=prometheus.yml",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
        *flags,
    )
    try:
        yield daemon.wait_ready()
    finally:
        daemon.stop()


@contextlib.contextmanager
def alertmanager(config: Mapping[str, Any], folder: Path) -> Iterator[Daemon]:
    """A ready Alertmanager with that configuration, alone in its cluster."""
    (folder / "alertmanager.yml").write_text(yaml.safe_dump(dict(config)))
    port = free_port()
    daemon = Daemon(
        folder,
        port,
        tool("prometheus-alertmanager"),
        "--config.file=alertmanager.yml",
        f"--storage.path={folder / 'alertmanager'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
    )
    try:
        yield daemon.wait_ready()
    finally:
        daemon.stop()
