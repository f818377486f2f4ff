"""Servers to measure, ours and others': processes with ports of their own, ready when their blocks begin."""

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import httpx

from app.bench.replies import Server
from app.bench.texts import question

SAMOVAR, MLX_LM, LLAMA_CPP = "samovar", "mlx_lm.server", "llama.cpp"

START_SECONDS = 180.0


@dataclass(frozen=True)
class Running:
    """A server that answers, and its process."""

    name: str
    server: Server
    pid: int


def free_port() -> int:
    """A port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def samovar(model: str, *flags: str, name: str = SAMOVAR) -> AbstractContextManager[Running]:
    """Ours, under the model's path as its name, as mlx_lm.server has it."""
    port = free_port()
    command = [sys.executable, "-m", "app", "serve", "--port", str(port), "--model", model, "--alias", model]
    return running(name, [*command, *flags], port, model)


def mlx_lm(model: str, *flags: str) -> AbstractContextManager[Running]:
    """mlx-lm's own."""
    port = free_port()
    command = [sys.executable, "-m", "mlx_lm", "server", "--port", str(port), "--model", model]
    return running(MLX_LM, [*command, *flags], port, model)


@contextlib.contextmanager
def running(name: str, command: Sequence[str], port: int, model: str) -> Iterator[Running]:
    """Start a server and wait until it answers a request."""
    url = f"http://127.0.0.1:{port}"
    first = {"model": model, "messages": question("first", 8), "max_tokens": 2}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + START_SECONDS
            while True:
                with contextlib.suppress(httpx.HTTPError):
                    if httpx.post(f"{url}/v1/chat/completions", json=first, timeout=120).is_success:
                        break
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"{name} did not start")
                time.sleep(0.1)
            yield Running(name, Server(url, model), process.pid)
        finally:
            process.terminate()
