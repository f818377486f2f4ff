"""A server under random use for a long time: is its memory flat, its ledger exact, and nobody stuck?

`python -m benchmarks.soak --model FOLDER [--requests N] [--seconds N] [--clients N] [--faults] [--json FILE]`

Clients talk in sessions, stream or wait, leave in the midst of replies, send what cannot be served, and
ask for too much at once. At equal steps of the way, with nobody being served, the server is asked what it
holds. With `--faults` (a Llama's folder is needed) steps of the engine fail between two such looks as well.
It ends with exit code 1 where a law is broken.
"""

import argparse
import asyncio
import contextlib
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil

from benchmarks.machine import describe_machine
from benchmarks.serving_bench import free_port

CHECKS = 10
"""How often the server is looked at on the way."""

GROWTH_SHARE = 0.10
"""How much more memory the second half of the way may end with than it began with, as a share."""

PATIENCE_SECONDS = 120
"""A request that takes longer is stuck: each has a few tokens."""

WORDS = ("samovar", "tea", "coal", "steam", "cup", "lemon", "sugar", "saucer", "embers", "kettle")


FLAGS = (
    *("--scheduler-max-running", "8", "--scheduler-max-waiting", "14", "--snapshot-capacity-bytes", "4MiB"),
    *("--snapshot-ttl", "30s", "--telemetry-log-level", "error", "--scheduler-max-rebuilds", "off"),
)


@dataclass(frozen=True)
class Look:
    """The server with nobody being served: what it holds, and what it has counted."""

    requests: int
    rss_bytes: int
    series: int
    entries: int
    snapshot_bytes: int


@dataclass
class Course:
    """What has been done so far, shared by all clients."""

    most: int
    ends_at: float
    outcomes: Counter[str] = field(default_factory=Counter)
    faults: int = 0
    """How many steps of the engine were made to fail."""

    @property
    def done(self) -> int:
        """Requests so far, however they ended."""
        return self.outcomes.total()

    def goes_on(self, until: int) -> bool:
        """Whether another request is to be made before the next look."""
        return self.done < min(until, self.most) and time.monotonic() < self.ends_at


class Client:
    """One user with a few sessions, at random.

    Args:
        http: how the server is asked.
        number: makes its sessions its own.
        rng: decides what it does.
    """

    def __init__(self, http: httpx.AsyncClient, number: int, rng: random.Random) -> None:
        self._http = http
        self._number = number
        self._rng = rng
        self._talks: dict[int, list[dict[str, str]]] = {}
        self._begun = 0

    async def ask(self) -> str:
        """One request; how it ended."""
        whim = self._rng.random()
        if whim < 0.05:
            return await self._nonsense()
        talk, messages = self._next_turn()
        body = {
            "messages": messages,
            "max_tokens": self._rng.randrange(1, 24),
            "prompt_cache_key": f"soak-{self._number}-{talk}",
            "temperature": self._rng.choice((0, 0.9)),
        }
        async with asyncio.timeout(PATIENCE_SECONDS):
            if whim < 0.25:
                return await self._leave(body)
            answer = await self._http.post("/v1/chat/completions", json=body)
        if answer.status_code == httpx.codes.OK:
            reply = answer.json()["choices"][0]["message"]["content"] or ""
            self._talks[talk] = [*messages, {"role": "assistant", "content": reply}]
        return str(answer.status_code)

    def _next_turn(self) -> tuple[int, list[dict[str, str]]]:
        """Go on with a talk or begin one; a long one is left for good."""
        text = " ".join(self._rng.choices(WORDS, k=self._rng.randrange(1, 12)))
        if not self._talks or self._rng.random() < 0.2:
            self._begun += 1
            self._talks[self._begun] = []
        talk = self._rng.choice(tuple(self._talks))
        messages = [*self._talks[talk], {"role": "user", "content": text}]
        if len(messages) > 8:
            del self._talks[talk]
        return talk, messages

    async def _leave(self, body: dict[str, Any]) -> str:
        """Stream, and be gone after some bytes."""
        async with self._http.stream("POST", "/v1/chat/completions", json=body | {"stream": True}) as answer:
            left = self._rng.randrange(0, 4)
            async for _ in answer.aiter_raw():
                left -= 1
                if left <= 0:
                    return "left"
        return "streamed"

    async def _nonsense(self) -> str:
        body = self._rng.choice(
            (b"{", b'{"messages": 1}', b'{"messages": []}', b"\xff\xfe", b'{"messages": [{"role": "tsar"}]}')
        )
        answer = await self._http.post("/v1/chat/completions", content=body)
        assert answer.status_code == httpx.codes.BAD_REQUEST, answer.text
        return "nonsense"


async def _walk(client: Client, course: Course, until: int) -> None:
    while course.goes_on(until):
        try:
            outcome = await client.ask()
        except TimeoutError:
            outcome = "stuck"
        course.outcomes[outcome] += 1


def _scrape(text: str) -> dict[str, float]:
    samples = (line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#"))
    return {series: float(value) for series, value in samples}


def _sum(metrics: dict[str, float], name: str) -> float:
    return sum(value for series, value in metrics.items() if series.partition("{")[0] == name)


async def look(http: httpx.AsyncClient, process: psutil.Process, course: Course) -> tuple[Look, list[str]]:
    """The server at rest, and every law that it breaks."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            probe = (await http.get("/readyz")).json()
            if probe["running"] == probe["waiting"] == 0:
                break
            await asyncio.sleep(0.05)
    metrics = _scrape((await http.get("/metrics")).text)
    broken = []
    for what, unit in (("entries", "s"), ("bytes", "ed_bytes")):
        inserted = _sum(metrics, f"samovar_snapshot_insert{unit}_total")
        removed = _sum(metrics, "samovar_snapshot_remov" + ("als_total" if unit == "s" else "ed_bytes_total"))
        held = _sum(metrics, f"samovar_snapshot_{what}")
        if inserted - removed != held:
            broken.append(f"ledger: {inserted} - {removed} {what} are not {held}")
    if metrics["samovar_engine_rebuilds_total"] != course.faults:
        broken.append(f"{metrics['samovar_engine_rebuilds_total']} failures for {course.faults} faults")
    if course.outcomes["500"] and not course.faults:
        broken.append(f"{course.outcomes['500']} requests failed")
    if course.outcomes["stuck"]:
        broken.append(f"{course.outcomes['stuck']} requests were stuck")
    return (
        Look(
            course.done,
            process.memory_info().rss,
            len(metrics),
            int(_sum(metrics, "samovar_snapshot_entries")),
            int(_sum(metrics, "samovar_snapshot_bytes")),
        ),
        broken,
    )


async def soak(
    url: str, process: psutil.Process, options: argparse.Namespace, faults: Path | None
) -> dict[str, Any]:
    """All of the way, with the looks on it and the laws that were broken.

    `faults`: where a fault is ordered; see `tests.support.faulty_server`.
    """
    rng = random.Random(options.seed)
    course = Course(options.requests, time.monotonic() + options.seconds)
    looks: list[Look] = []
    broken: list[str] = []
    began = time.monotonic()
    async with httpx.AsyncClient(base_url=url, timeout=None) as http:
        clients = [Client(http, number, random.Random(rng.random())) for number in range(options.clients)]
        for step in range(1, CHECKS + 1):
            until = options.requests * step // CHECKS
            if faults is not None and course.goes_on(until):
                (faults / "next").write_text("oom")
                (faults / "next").rename(faults / "decode")
                course.faults += 1
            await asyncio.gather(*(_walk(client, course, until) for client in clients))
            if faults is not None and (faults / "decode").exists():
                # Nobody came by any more.
                (faults / "decode").unlink()
                course.faults -= 1
            seen, wrong = await look(http, process, course)
            looks.append(seen)
            broken += wrong
    slope = slope_of(looks[len(looks) // 2 :])
    half = looks[len(looks) // 2]
    if looks[-1].rss_bytes > half.rss_bytes * (1 + GROWTH_SHARE):
        broken.append(f"memory grew from {half.rss_bytes} to {looks[-1].rss_bytes} bytes")
    if len({seen.series for seen in looks}) > 1:
        broken.append(f"series grew: {[seen.series for seen in looks]}")
    return {
        "requests": course.done,
        "seconds": time.monotonic() - began,
        "outcomes": dict(sorted(course.outcomes.items())),
        "bytes_per_request": slope,
        "looks": [asdict(seen) for seen in looks],
        "broken": broken,
    }


def slope_of(looks: list[Look]) -> float:
    """Bytes of the process for each further request, by least squares; 0 where there was only one."""
    if len({seen.requests for seen in looks}) < 2:
        return 0.0
    return statistics.linear_regression(
        [seen.requests for seen in looks], [seen.rss_bytes for seen in looks]
    ).slope


@contextlib.contextmanager
def serving(model: Path, faults: Path | None) -> Iterator[tuple[str, psutil.Process]]:
    """A server that refuses what is too much at once: its address and its process."""
    port = free_port()
    program = ["app"] if faults is None else ["tests.support.faulty_server", str(faults)]
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
    parser.add_argument("--model", type=Path, required=True, help="model folder; a tiny one")
    parser.add_argument("--requests", type=int, default=100_000, help="most requests")
    parser.add_argument("--seconds", type=float, default=3600, help="longest time")
    parser.add_argument("--clients", type=int, default=24, help="clients at a time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", action="store_true", help="let steps of the engine fail")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/soak.json"))
    options = parser.parse_args()
    with contextlib.ExitStack() as opened:
        faults = Path(opened.enter_context(tempfile.TemporaryDirectory())) if options.faults else None
        url, process = opened.enter_context(serving(options.model, faults))
        result = asyncio.run(soak(url, process, options, faults))
    print(json.dumps({name: result[name] for name in result if name != "looks"}, indent=1))
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({"machine": describe_machine(), "result": result}, indent=1))
    sys.exit(1 if result["broken"] else 0)


if __name__ == "__main__":
    main()
