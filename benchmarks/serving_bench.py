"""Samovar beside mlx-lm's own server: the same model, machine, requests and client, in turn in one run.

`python -m benchmarks.serving_bench [--model FOLDER] [--clients 1,4,8] [--pairs N] [--json FILE]`

Each pair is one round on either server, the order changing from pair to pair; a result is the median of
the pairs' ratios. All prompts differ from their first token on, so nothing comes out of a cache.
"""

import argparse
import asyncio
import contextlib
import json
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx

from benchmarks.machine import describe_machine, spread

WORDS = ("river", "copper", "steam", "garden", "window", "lantern", "barley", "harbour", "thimble", "orchard")


@dataclass(frozen=True)
class Round:
    """One round of one server: seconds to each first token, and tokens of all replies a second."""

    first_token_seconds: list[float]
    tokens_per_second: float


@dataclass(frozen=True)
class Server:
    """A running server. `unasked`: the request fields it needs besides those of the protocol."""

    name: str
    url: str
    model: str


def free_port() -> int:
    """A port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def running(name: str, command: list[str], port: int, model: str) -> Iterator[Server]:
    """Start a server and wait until it answers a request."""
    url = f"http://127.0.0.1:{port}"
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            server = Server(name, url, model)
            deadline = time.monotonic() + 180
            while True:
                with contextlib.suppress(httpx.HTTPError):
                    if httpx.post(
                        f"{url}/v1/chat/completions", json=body(server, 0, 2, 8), timeout=120
                    ).is_success:
                        break
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"{name} did not start")
                time.sleep(0.2)
            yield server
        finally:
            process.terminate()


def body(server: Server, number: int, max_tokens: int, words: int) -> dict[str, Any]:
    """A request whose prompt begins unlike any other's."""
    text = f"{number} " + " ".join(WORDS[(number * 7 + i * i) % len(WORDS)] for i in range(words))
    return {
        "model": server.model,
        "messages": [{"role": "system", "content": f"Case {number}."}, {"role": "user", "content": text}],
        "max_tokens": max_tokens,
        "temperature": 0,
        "logit_bias": {"2": -100},
    }


async def one(
    client: httpx.AsyncClient, server: Server, number: int, options: argparse.Namespace
) -> tuple[float, int]:
    """One streamed request: seconds to its first text, and its number of tokens."""
    request = body(server, number, options.max_tokens, options.words)
    request |= {"stream": True, "stream_options": {"include_usage": True}}
    began, first, tokens = time.perf_counter(), 0.0, 0
    async with client.stream("POST", f"{server.url}/v1/chat/completions", json=request) as answer:
        answer.raise_for_status()
        async for line in answer.aiter_lines():
            if not line.startswith("data: {"):
                continue
            frame = json.loads(line[6:])
            if frame.get("usage"):
                tokens = frame["usage"]["completion_tokens"]
            elif not first and frame["choices"] and frame["choices"][0]["delta"].get("content"):
                first = time.perf_counter() - began
    assert first, "no text came"
    assert tokens == options.max_tokens, f"{server.name} made {tokens} tokens"
    return first, tokens


async def round_of(
    server: Server, clients: int, numbers: Iterator[int], options: argparse.Namespace
) -> Round:
    """`clients` clients, each asking some questions one after the other."""
    async with httpx.AsyncClient(timeout=600) as client:

        async def talk() -> list[tuple[float, int]]:
            return [await one(client, server, next(numbers), options) for _ in range(options.requests)]

        began = time.perf_counter()
        said = [each for talks in await asyncio.gather(*(talk() for _ in range(clients))) for each in talks]
        seconds = time.perf_counter() - began
    return Round([first for first, _ in said], sum(tokens for _, tokens in said) / seconds)


def compare(
    servers: tuple[Server, Server], clients: int, numbers: Iterator[int], options: argparse.Namespace
) -> dict[str, Any]:
    """Pairs of rounds, and the ratios ours ÷ theirs of each."""
    ours, theirs = servers
    rounds: dict[str, list[Round]] = {ours.name: [], theirs.name: []}
    for pair in range(options.pairs + 1):
        for server in (ours, theirs) if pair % 2 else (theirs, ours):
            measured = asyncio.run(round_of(server, clients, numbers, options))
            if pair:  # the first pair warms both up
                rounds[server.name].append(measured)
    pairs = list(zip(rounds[ours.name], rounds[theirs.name], strict=True))
    median = statistics.median
    return {
        "clients": clients,
        "throughput_ratio": spread([o.tokens_per_second / t.tokens_per_second for o, t in pairs]),
        "first_token_ratio": spread(
            [median(o.first_token_seconds) / median(t.first_token_seconds) for o, t in pairs]
        ),
        "rounds": {name: [asdict(each) for each in measured] for name, measured in rounds.items()},
    }


def demo_folder() -> Path:
    """The demo model's folder, converted if it is not there yet."""
    import platformdirs

    from app.engine.demo import demo_model
    from app.engine.loader import demo_dtype

    return demo_model(
        Path(platformdirs.user_cache_dir("samovar")), dtype=demo_dtype(), progress=lambda *_: None
    )


def main() -> None:
    """Measure, print a table of ratios, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", type=Path, help="model folder; the demo model without it")
    parser.add_argument("--clients", default="1,4,8", help="numbers of clients at a time")
    parser.add_argument("--pairs", type=int, default=6, help="paired rounds for each number of clients")
    parser.add_argument("--requests", type=int, default=2, help="requests of each client in a round")
    parser.add_argument("--max-tokens", type=int, default=32, help="tokens of each reply")
    parser.add_argument("--words", type=int, default=60, help="words of each prompt, about as many tokens")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/serving.json"))
    options = parser.parse_args()
    folder = str(options.model or demo_folder())
    ours, theirs = free_port(), free_port()
    samovar = [
        sys.executable,
        "-m",
        "app",
        "serve",
        "--port",
        str(ours),
        "--model",
        folder,
        "--alias",
        folder,
    ]
    mlx_lm = [sys.executable, "-m", "mlx_lm", "server", "--port", str(theirs), "--model", folder]
    numbers = iter(range(1, 10**9))
    with (
        running("samovar", samovar, ours, folder) as first,
        running("mlx_lm.server", mlx_lm, theirs, folder) as second,
    ):
        results = [compare((first, second), int(n), numbers, options) for n in options.clients.split(",")]
    print("clients   tokens/s, ours ÷ mlx_lm.server     time to first token, ours ÷ mlx_lm.server")
    for result in results:
        speed, wait = result["throughput_ratio"], result["first_token_ratio"]
        print(
            f"{result['clients']:7d}   {speed['median']:.2f}  ({speed['min']:.2f} to {speed['max']:.2f})"
            f"                 {wait['median']:.2f}  ({wait['min']:.2f} to {wait['max']:.2f})"
        )
    asked = {name: getattr(options, name) for name in ("pairs", "requests", "max_tokens", "words")}
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(
        json.dumps({"machine": describe_machine(), "options": asked, "results": results}, indent=1)
    )


if __name__ == "__main__":
    main()
