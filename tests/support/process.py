"""The `samovar` command as a real process, as its user starts it."""

import contextlib
import os
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import httpx
from openai import OpenAI

READY_SECONDS = 120
END_SECONDS = 60
COMMAND = ("-m", "app")
_GREETING = re.compile(r"^Samovar serves (?P<model>\S+) at (?P<url>\S+)$")


def clean_environment(**more: str) -> dict[str, str]:
    """This environment without any setting of the server."""
    return {k: v for k, v in os.environ.items() if not k.startswith("SAMOVAR_")} | more


class Samovar:
    """A running server. What it writes is kept; `url` is known once it is ready.

    Args:
        flags: of `samovar serve`; a free port is taken.
        environment: added to a clean one.
        folder: the working directory, so that no stray configuration file is read.
        program: what Python runs in place of the command itself.
    """

    def __init__(
        self,
        *flags: str,
        folder: Path,
        environment: dict[str, str] | None = None,
        program: Sequence[str] = COMMAND,
    ) -> None:
        self.lines: list[str] = []
        # Closed with the server: a socket that is only collected warns in whatever test runs then.
        self.clients = contextlib.ExitStack()
        self.url = ""
        self.model = ""
        self._greeting: queue.Queue[re.Match[str] | None] = queue.Queue()
        self.process = subprocess.Popen(
            [sys.executable, *program, "serve", "--port", "0", *flags],
            cwd=folder,
            env=clean_environment(
                **{"PYTHONPATH": str(Path.cwd()), "SAMOVAR_SERVER__STATE_FOLDER": str(folder / "state")}
                | (environment or {})
            ),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            bufsize=1,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as output:
            for line in output:
                self.lines.append(line.rstrip("\n"))
                if greeting := _GREETING.match(self.lines[-1]):
                    self._greeting.put(greeting)
        self._greeting.put(None)

    @property
    def output(self) -> str:
        """Everything written so far."""
        return "\n".join(self.lines)

    def lines_of_json(self) -> list[str]:
        """The log lines written so far: all but the greeting."""
        return [line for line in self.lines if line.startswith("{")]

    def wait_ready(self) -> Self:
        """Wait for the greeting; fails with the server's own words if it ends instead."""
        greeting = self._greeting.get(timeout=READY_SECONDS)
        assert greeting is not None, f"the server did not start:\n{self.output}"
        self.model, self.url = greeting["model"], greeting["url"]
        return self

    def client(self, **options: Any) -> OpenAI:
        """The official client, without retries of its own."""
        client = OpenAI(base_url=f"{self.url}/v1", api_key="unused", **{"max_retries": 0, **options})
        return self.clients.enter_context(client)

    def get(self, path: str, **options: Any) -> httpx.Response:
        """One GET."""
        return httpx.get(self.url + path, timeout=30, **options)

    def stats(self) -> dict[str, Any]:
        """`/v1/cache/stats`."""
        stats: dict[str, Any] = self.get("/v1/cache/stats").raise_for_status().json()
        return stats

    def metrics(self) -> dict[str, float]:
        """`/metrics`, as series with labels → value."""
        text = self.get("/metrics").raise_for_status().text
        return samples_of(text)

    def signal(self, number: int) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def wait_ended(self) -> int:
        """Wait for the end; the exit code."""
        code = self.process.wait(END_SECONDS)
        self._reader.join(END_SECONDS)
        return code

    def stop(self) -> int:
        """End it politely; the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait_ended()


@contextlib.contextmanager
def samovar(
    *flags: str, folder: Path, environment: dict[str, str] | None = None, program: Sequence[str] = COMMAND
) -> Iterator[Samovar]:
    """A ready server for a block; it must end with exit code 0 afterwards, unless it has ended already."""
    server = Samovar(*flags, folder=folder, environment=environment, program=program)
    try:
        yield server.wait_ready()
        if server.process.poll() is None:
            assert server.stop() == 0, server.output
    finally:
        server.clients.close()
        if server.process.poll() is None:
            server.process.kill()
            server.wait_ended()


def samples_of(text: str) -> dict[str, float]:
    """The samples of a scrape, by their names as it writes them."""
    samples = (line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#"))
    return {series: float(value) for series, value in samples}


def labelled(series: str, **labels: str) -> str:
    """The name of a sample as /metrics writes it."""
    inner = ",".join(f'{name}="{labels[name]}"' for name in sorted(labels))
    return f"{series}{{{inner}}}" if labels else series


def total(metrics: dict[str, float], series: str) -> float:
    """The sum over all label values of a series."""
    return sum(value for name, value in metrics.items() if name.split("{")[0] == series)


def conversation(
    client: OpenAI, model: str, turns: Sequence[str], *, session: str, max_tokens: int = 16
) -> list[tuple[str, int, int]]:
    """Talk at temperature 0; (reply, cached tokens, prompt tokens) of each turn."""
    messages: list[Any] = []
    said = []
    for text in turns:
        messages.append({"role": "user", "content": text})
        answer = client.chat.completions.create(
            model=model,
            messages=messages,
            temperature=0,
            max_tokens=max_tokens,
            extra_body={"prompt_cache_key": session},
        )
        reply = answer.choices[0].message.content or ""
        usage = answer.usage
        assert usage is not None
        assert usage.prompt_tokens_details is not None
        said.append((reply, usage.prompt_tokens_details.cached_tokens or 0, usage.prompt_tokens))
        messages.append({"role": "assistant", "content": reply})
    return said
