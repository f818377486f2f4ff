"""A server under random use for a long time: is its memory flat, its ledger exact, and nobody stuck?

`python -m benchmarks.soak [--model FOLDER] [--requests N] [--seconds N] [--clients N] [--looks N] [--faults]
[--json FILE]`

Clients talk in sessions, stream or wait, leave in the midst of replies, send what cannot be served, and
ask for too much at once. At equal steps of the way, with nobody being served, the server is asked what it
holds. With `--faults` (a Llama's folder is needed) parts of the engine fail on the way as well. It ends
with exit code 1 where a law is broken.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil

from app.bench.machine import describe_machine
from benchmarks.servers import free_port
from benchmarks.soak_clients import PATIENCE_SECONDS, Client
from benchmarks.soak_faults import Faults
from tests.support.process import samples_of, total
from tests.support.tiny import make_tiny_model

GROWTH_SHARE = 0.10
"""How much more memory the second half of the way may end with than it began with, as a share."""

POOL_THREADS = 6
"""A pool (Python's own, Granian's) starts each thread when it is first needed; a leak shows in more."""

OUTCOMES = frozenset({"200", "429", "left", "streamed", "nonsense"})
"""How a request may end; where there are faults, with 500 too."""

QUESTION = {
    "messages": [{"role": "user", "content": "What is it that never changes?"}],
    "temperature": 0,
    "max_tokens": 24,
    "cache_prompt": False,
}
"""Asked at each look; its answer is computed from nothing that was stored."""

FLAGS = (
    *("--scheduler-max-running", "16", "--scheduler-max-waiting", "14", "--snapshot-capacity-bytes", "4MiB"),
    *("--snapshot-ttl", "30s", "--telemetry-log-level", "error", "--scheduler-max-rebuilds", "off"),
)


@dataclass(frozen=True, slots=True)
class Look:
    """The server with nobody being served: what it holds, and what it has counted."""

    requests: int
    seconds: float
    rss_bytes: int
    threads: int
    files: int
    series: int
    entries: int
    snapshot_bytes: int
    rebuilds: int
    reply: str
    """What it says to the question that is the same each time."""


@dataclass(slots=True)
class Course:
    """What has been done so far, shared by all clients."""

    most: int
    seconds: float
    began: float
    outcomes: Counter[str] = field(default_factory=Counter)

    @property
    def done(self) -> int:
        """Requests so far, however they ended."""
        return self.outcomes.total()

    def goes_on(self, share: float) -> bool:
        """Whether another request is to be made within this share of the way, in requests and in time."""
        return self.done < self.most * share and time.monotonic() - self.began < self.seconds * share


async def _walk(
    client: Client, course: Course, share: float, faults: Faults, *, requests_per_fault: int
) -> None:
    while course.goes_on(share):
        course.outcomes[await client.ask()] += 1
        if course.done % requests_per_fault == 0:
            faults.order()


async def look(
    http: httpx.AsyncClient, process: psutil.Process, course: Course, faults: Faults
) -> tuple[Look, list[str]]:
    """The server at rest, and every law that it breaks."""
    faults.withdraw()
    answer = await http.post("/v1/chat/completions", json=QUESTION)
    metrics = await _at_rest(http, faults)
    broken = []
    for what, unit in (("entries", "s"), ("bytes", "ed_bytes")):
        inserted = total(metrics, f"samovar_snapshot_insert{unit}_total")
        removed = total(
            metrics, "samovar_snapshot_remov" + ("als_total" if unit == "s" else "ed_bytes_total")
        )
        held = total(metrics, f"samovar_snapshot_{what}")
        if inserted - removed != held:
            broken.append(f"ledger: {inserted} - {removed} {what} are not {held}")
    rebuilds = int(metrics["samovar_engine_rebuilds_total"])
    if rebuilds != faults.batches:
        broken.append(f"{rebuilds} batches were built anew for {faults.batches} faults")
    allowed = OUTCOMES | ({"500"} if faults.batches else set())
    broken += [
        f"{count} requests ended as {how}" for how, count in course.outcomes.items() if how not in allowed
    ]
    with process.oneshot():
        seen = Look(
            requests=course.done,
            seconds=time.monotonic() - course.began,
            rss_bytes=process.memory_info().rss,
            threads=process.num_threads(),
            files=process.num_fds(),
            series=len(metrics),
            entries=int(total(metrics, "samovar_snapshot_entries")),
            snapshot_bytes=int(total(metrics, "samovar_snapshot_bytes")),
            rebuilds=rebuilds,
            reply=answer.raise_for_status().json()["choices"][0]["message"]["content"],
        )
    return seen, broken


async def _at_rest(http: httpx.AsyncClient, faults: Faults) -> dict[str, float]:
    """What is counted once nobody is served and the last fault has been dealt with, or patience has ended."""
    give_up = time.monotonic() + PATIENCE_SECONDS
    while True:
        probe = (await http.get("/readyz")).json()
        metrics = samples_of((await http.get("/metrics")).text)
        idle = probe["running"] == probe["waiting"] == 0
        if idle and metrics["samovar_engine_rebuilds_total"] == faults.batches:
            return metrics
        if time.monotonic() > give_up:
            return metrics
        await asyncio.sleep(0.05)


def laws_of_the_way(looks: Sequence[Look], clients: int) -> list[str]:
    """What was broken over the whole of it: something has grown that has no reason to."""
    first, half, last = looks[0], looks[len(looks) // 2], looks[-1]
    broken = []
    if last.rss_bytes > half.rss_bytes * (1 + GROWTH_SHARE):
        broken.append(f"memory grew from {half.rss_bytes} to {last.rss_bytes} bytes")
    if len({seen.series for seen in looks}) > 1:
        broken.append(f"series grew: {[seen.series for seen in looks]}")
    if len({seen.reply for seen in looks}) > 1:
        broken.append(f"the same question was answered in other words: {[seen.reply for seen in looks]}")
    if last.threads > first.threads + POOL_THREADS:
        broken.append(f"threads grew from {first.threads} to {last.threads}")
    # Each client may keep a connection open.
    if last.files > first.files + clients:
        broken.append(f"open files grew from {first.files} to {last.files}")
    return broken


async def soak(
    url: str, process: psutil.Process, options: argparse.Namespace, orders: Path | None
) -> dict[str, Any]:
    """All of the way, with the looks on it and the laws that were broken.

    `orders`: where a fault is ordered; see `tests.support.faulty_server`.
    """
    rng = random.Random(options.seed)
    faults = Faults(orders, rng)
    looks: list[Look] = []
    broken: list[str] = []
    spent = _processor_seconds(process), _processor_seconds(psutil.Process())
    async with httpx.AsyncClient(base_url=url, timeout=None) as http:
        clients = [Client(http, number, random.Random(rng.random())) for number in range(options.clients)]
        course = Course(options.requests, options.seconds, time.monotonic())
        for step in range(1, options.looks + 1):
            share = step / options.looks
            each = options.requests_per_fault
            await asyncio.gather(
                *(_walk(client, course, share, faults, requests_per_fault=each) for client in clients)
            )
            seen, wrong = await look(http, process, course, faults)
            looks.append(seen)
            broken += wrong
    seconds = time.monotonic() - course.began
    return {
        "requests": course.done,
        "seconds": seconds,
        "outcomes": dict(sorted(course.outcomes.items())),
        "faults": dict(sorted(faults.struck.items())),
        "bytes_per_request": slope_of(looks[len(looks) // 2 :]),
        "cores_busy": {
            "server": (_processor_seconds(process) - spent[0]) / seconds,
            "clients": (_processor_seconds(psutil.Process()) - spent[1]) / seconds,
            "machine": os.cpu_count(),
        },
        "looks": [asdict(seen) for seen in looks],
        "broken": broken + laws_of_the_way(looks, options.clients),
    }


def _processor_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def slope_of(looks: Sequence[Look]) -> float:
    """Bytes of the process for each further request, by least squares; 0 where there was only one."""
    if len({seen.requests for seen in looks}) < 2:
        return 0.0
    return statistics.linear_regression(
        [seen.requests for seen in looks], [seen.rss_bytes for seen in looks]
    ).slope


@contextlib.contextmanager
def serving(model: Path, orders: Path | None) -> Iterator[tuple[str, psutil.Process]]:
    """A server that refuses what is too much at once: its address and its process."""
    port = free_port()
    program = ["app"] if orders is None else ["tests.support.faulty_server", str(orders)]
    command = [
        *(sys.executable, "-m", *program),
        *("serve", "--port", str(port), "--model", str(model), *FLAGS),
    ]
    url = f"http://127.0.0.1:{port}"
    with (
        tempfile.TemporaryDirectory() as state,
        subprocess.Popen(
            [*command, "--state-folder", state], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process,
    ):
        try:
            give_up = time.monotonic() + 180
            while True:
                with contextlib.suppress(httpx.TransportError):
                    if httpx.get(f"{url}/readyz").is_success:
                        break
                if process.poll() is not None or time.monotonic() > give_up:
                    raise SystemExit("the server did not start")
                time.sleep(0.1)
            yield url, psutil.Process(process.pid)
        finally:
            process.terminate()


def main() -> None:
    """Soak, print what came of it, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", type=Path, help="folder of a tiny model; a random Llama without it")
    parser.add_argument("--requests", type=int, default=100_000, help="most requests")
    parser.add_argument("--seconds", type=float, default=3600, help="longest time")
    parser.add_argument("--clients", type=int, default=32, help="clients at a time")
    parser.add_argument("--looks", type=int, default=20, help="how often the server is looked at")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", action="store_true", help="let parts of the engine fail")
    parser.add_argument("--requests-per-fault", type=int, default=250, help="how often something fails")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/soak.json"))
    options = parser.parse_args()
    with contextlib.ExitStack() as opened:
        orders = Path(opened.enter_context(tempfile.TemporaryDirectory())) if options.faults else None
        own = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        model = options.model or make_tiny_model(own / "llama", "llama")
        url, process = opened.enter_context(serving(model, orders))
        result = asyncio.run(soak(url, process, options, orders))
    print(json.dumps({name: result[name] for name in result if name != "looks"}, indent=1))
    asked = {name: getattr(options, name) for name in ("clients", "looks", "seed", "faults")}
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(
        json.dumps({"machine": describe_machine(), "options": asked, "result": result}, indent=1)
    )
    sys.exit(1 if result["broken"] else 0)


if __name__ == "__main__":
    main()
