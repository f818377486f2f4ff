"""What metrics, tracing and logs cost: a server that tells everything beside one that tells nothing.

`python -m benchmarks.telemetry_bench [--model FOLDER] [--clients 1,4] [--pairs N] [--json FILE]`

Both serve the same model over HTTP. One has every metric on and scraped once a second, every trace sent to an
OTLP receiver in a process of its own, and a log line a request; the other has all of that off. Each pair is
one round on either, the order changing from pair to pair; a result is the median of the pairs' ratios.
"""

import argparse
import contextlib
import itertools
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import httpx
import psutil

from app.bench.machine import describe_machine
from benchmarks.chosen_model import TO_THE_LIMIT
from benchmarks.demo import demo_folder
from benchmarks.servers import Running, free_port, samovar
from benchmarks.serving_bench import compare, load_of

SCRAPE_SECONDS = 1.0
OPENMETRICS = "application/openmetrics-text;version=1.0.0"
ALL_OFF = ("--no-telemetry-metrics", "--telemetry-log-level", "error")


def all_on(sink: str) -> tuple[str, ...]:
    """The flags of the server that tells everything."""
    return (
        "--telemetry-otlp-endpoint",
        sink,
        "--telemetry-sample-ratio",
        "1",
        "--telemetry-log-format",
        "json",
    )


@contextlib.contextmanager
def receiver() -> Iterator[str]:
    """An OTLP receiver in a process of its own; its address."""
    port = free_port()
    with subprocess.Popen([sys.executable, "-m", "benchmarks.otlp_sink", str(port)]) as process:
        try:
            url = f"http://127.0.0.1:{port}"
            for _ in range(100):
                with contextlib.suppress(httpx.HTTPError):
                    httpx.get(url)
                    break
                time.sleep(0.1)
            yield url
        finally:
            process.terminate()


class Scraper:
    """A Prometheus that looks at one server once a second, for as long as the block lasts."""

    def __init__(self, running: Running) -> None:
        self._url = f"{running.server.url}/metrics"
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.scrapes = 0

    def _run(self) -> None:
        with httpx.Client(headers={"accept": OPENMETRICS}, timeout=60) as client:
            while not self._ended.wait(SCRAPE_SECONDS):
                client.get(self._url).raise_for_status()
                self.scrapes += 1

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ended.set()
        self._thread.join()


def cpu_seconds(running: Running) -> float:
    """What a server has used of the processor so far."""
    times = psutil.Process(running.pid).cpu_times()
    return float(times.user + times.system)


def measured(
    servers: tuple[Running, Running], clients: str, tags: Iterator[str], options: argparse.Namespace
) -> dict[str, Any]:
    """The ratios on ÷ off for one number of clients; both servers answer the same number of requests."""
    before = [cpu_seconds(server) for server in servers]
    result = compare(servers, load_of(clients, options), tags, pairs=options.pairs, fields=TO_THE_LIMIT)
    on, off = (cpu_seconds(server) - start for server, start in zip(servers, before, strict=True))
    return {**result, "processor_ratio": on / off}


def main() -> None:
    """Measure, print a table of ratios, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", type=Path, help="model folder; the demo model without it")
    parser.add_argument("--clients", default="1,4", help="numbers of clients at a time")
    parser.add_argument("--pairs", type=int, default=10, help="paired rounds for each number of clients")
    parser.add_argument("--requests", type=int, default=2, help="requests of each client in a round")
    parser.add_argument("--max-tokens", type=int, default=64, help="tokens of each reply")
    parser.add_argument("--words", type=int, default=60, help="words of each prompt, about as many tokens")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/telemetry.json"))
    options = parser.parse_args()
    folder = str(options.model or demo_folder())
    tags = map(str, itertools.count(1))
    with (
        receiver() as sink,
        samovar(folder, *all_on(sink), name="on") as on,
        samovar(folder, *ALL_OFF, name="off") as off,
    ):
        with Scraper(on) as scraper:
            results = [measured((on, off), clients, tags, options) for clients in options.clients.split(",")]
        spans = int(httpx.get(sink).text)
    assert spans, "no span arrived"
    assert scraper.scrapes, "nothing was scraped"
    print("clients   tokens/s, on ÷ off         time to first token, on ÷ off   processor, on ÷ off")
    for result in results:
        speed, wait = result["throughput_ratio"], result["first_token_ratio"]
        print(
            f"{result['clients']:7d}   {speed['median']:.3f} ({speed['min']:.2f} to {speed['max']:.2f})"
            f"      {wait['median']:.3f} ({wait['min']:.2f} to {wait['max']:.2f})"
            f"           {result['processor_ratio']:.3f}"
        )
    print(f"{spans} spans arrived, {scraper.scrapes} scrapes were answered")
    asked = {name: getattr(options, name) for name in ("pairs", "requests", "max_tokens", "words")}
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(
        json.dumps(
            {
                "machine": describe_machine(),
                "options": asked,
                "spans": spans,
                "scrapes": scraper.scrapes,
                "results": results,
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
