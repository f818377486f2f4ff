"""Start to ready beside a bare load of the model, and what an idle server takes of the processor.

`python -m benchmarks.start_bench [--model FOLDER] [--pairs N] [--idle-seconds S] [--json FILE]`

Each pair is one start of the server, until it is ready, and one of a Python that imports mlx-lm and loads the
same model, the order changing from pair to pair. Idle: no request; ours is scraped every 15 seconds.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil

from app.bench.machine import describe_machine, spread
from benchmarks.demo import demo_folder
from benchmarks.servers import START_SECONDS, Running, free_port, mlx_lm, samovar

BARE = "import sys; from mlx_lm import load; load(sys.argv[1])"
SCRAPE_SECONDS = 15.0


@dataclass(frozen=True)
class Start:
    """Seconds of the clock until ready, and of the processor, this process's own and all its threads'."""

    seconds: float
    processor_seconds: float


def bare(folder: str) -> Start:
    """A Python that loads the model and ends."""
    began = time.monotonic()
    # `wait4` is what tells one child's use of the processor.
    with subprocess.Popen([sys.executable, "-c", BARE, folder], stderr=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.monotonic() - began
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit("the bare load failed")
    return Start(seconds, used.ru_utime + used.ru_stime)


def ours(folder: str) -> Start:
    """The server, until it says that it is ready."""
    port = free_port()
    command = [sys.executable, "-m", "app", "serve", "--port", str(port), "--model", folder]
    began = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            ready = f"http://127.0.0.1:{port}/readyz"
            while not _answers(ready):
                if process.poll() is not None or time.monotonic() - began > START_SECONDS:
                    raise SystemExit("the server did not start")
                time.sleep(0.02)
            seconds = time.monotonic() - began
            return Start(seconds, processor_seconds(process.pid))
        finally:
            process.terminate()


def _answers(url: str) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(url).is_success
    return False


def processor_seconds(pid: int) -> float:
    """What a process has used so far."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def starts(folder: str, pairs: int) -> dict[str, Any]:
    """Pairs of starts, and what ours takes more."""
    found: dict[str, list[Start]] = {"ours": [], "bare": []}
    kinds = {"ours": ours, "bare": bare}
    for pair in range(pairs + 1):
        for name in kinds if pair % 2 else reversed(kinds):
            start = kinds[name](folder)
            if pair:  # the first pair brings the files into memory
                found[name].append(start)
    both = list(zip(found["ours"], found["bare"], strict=True))
    return {
        "seconds_more": spread([o.seconds - b.seconds for o, b in both]),
        "processor_seconds_more": spread([o.processor_seconds - b.processor_seconds for o, b in both]),
        "ratio": spread([o.seconds / b.seconds for o, b in both]),
        "starts": {name: [asdict(each) for each in each_start] for name, each_start in found.items()},
    }


def idle(folder: str, seconds: float) -> Mapping[str, float]:
    """The share of one core that each server takes while nobody asks it anything, in the same time."""
    with samovar(folder) as one, mlx_lm(folder) as other:
        ended = threading.Event()
        scraper = threading.Thread(target=_scrape, args=(one, ended))
        time.sleep(2)  # what a first request leaves to do is not idleness
        before = {each.name: processor_seconds(each.pid) for each in (one, other)}
        began = time.monotonic()
        scraper.start()
        time.sleep(seconds)
        lasted = time.monotonic() - began
        shares = {
            each.name: (processor_seconds(each.pid) - before[each.name]) / lasted for each in (one, other)
        }
        ended.set()
        scraper.join()
    return shares


def _scrape(running: Running, ended: threading.Event) -> None:
    while not ended.wait(SCRAPE_SECONDS):
        httpx.get(f"{running.server.url}/metrics").raise_for_status()


def main() -> None:
    """Measure, print, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", type=Path, help="model folder; the demo model without it")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--idle-seconds", type=float, default=60.0)
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/start.json"))
    options = parser.parse_args()
    folder = str(options.model or demo_folder())
    started = starts(folder, options.pairs)
    shares = idle(folder, options.idle_seconds)
    print("start to ready, more than a bare load:", started["seconds_more"], "s of the clock,")
    print(started["processor_seconds_more"], "s of the processor")
    print("idle, of one core:", {name: f"{share:.2%}" for name, share in shares.items()})
    result = {"starts": started, "idle": shares, "idle_seconds": options.idle_seconds}
    options.json.write_text(
        json.dumps({"machine": describe_machine(), "pairs": options.pairs, **result}, indent=1)
    )


if __name__ == "__main__":
    main()
