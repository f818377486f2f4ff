"""How long running replies stand still while a long prompt is prefilled, beside mlx-lm's own server.

`python -m benchmarks.stall_bench [--model FOLDER] [--streams N] [--words N] [--pairs N] [--json FILE]`

In each round some clients stream; once all of them have text, another one sends a long prompt. Counted are
the gaps between the frames of the streams from then until that prompt's first token. Each pair is one round
on either server, the order changing from pair to pair. All prompts differ from their first token on.
"""

import argparse
import asyncio
import contextlib
import json
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx

from benchmarks.machine import describe_machine, spread
from benchmarks.serving_bench import Server, body, demo_folder, free_port, running

STREAM_TOKENS = 3000
"""More than there is time for: streams run until they are left."""

FLOWING_FRAMES = 8
"""How many frames of each stream come before the long prompt does."""


@dataclass(frozen=True)
class Round:
    """Seconds between frames while the prompt was prefilled, and what it took."""

    gap_p99_seconds: float
    gap_max_seconds: float
    prefill_seconds: float
    gaps: int


async def frames(client: httpx.AsyncClient, server: Server, request: dict[str, Any]) -> Any:
    """The time of each piece of text of a streamed reply."""
    request |= {"stream": True}
    async with client.stream("POST", f"{server.url}/v1/chat/completions", json=request) as answer:
        answer.raise_for_status()
        async for line in answer.aiter_lines():
            if line.startswith("data: {") and _has_text(json.loads(line[6:])):
                yield time.perf_counter()


def _has_text(frame: dict[str, Any]) -> bool:
    return bool(frame.get("choices") and frame["choices"][0]["delta"].get("content"))


async def one_round(server: Server, numbers: Iterator[int], options: argparse.Namespace) -> Round:
    """Some streams, and a long prompt in their midst."""
    times: list[list[float]] = [[] for _ in range(options.streams)]
    flowing = [asyncio.Event() for _ in times]

    async def follow(client: httpx.AsyncClient, mine: list[float], flows: asyncio.Event) -> None:
        async for at in frames(client, server, body(server, next(numbers), STREAM_TOKENS, 20)):
            mine.append(at)
            if len(mine) >= FLOWING_FRAMES:
                flows.set()

    async with httpx.AsyncClient(timeout=1200) as client:
        following = [
            asyncio.create_task(follow(client, mine, flows))
            for mine, flows in zip(times, flowing, strict=True)
        ]
        all_flow = asyncio.ensure_future(_all_of(flowing))
        await asyncio.wait([all_flow, *following], return_when=asyncio.FIRST_COMPLETED)
        if not all_flow.done():
            raise SystemExit(f"a stream of {server.name} ended before the prompt came")
        began = time.perf_counter()
        long = frames(client, server, body(server, next(numbers), 4, options.words))
        first = await anext(long)
        await long.aclose()
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)
    gaps = _gaps(times, began, first)
    return Round(_p99(gaps), max(gaps), first - began, len(gaps))


async def _all_of(events: Sequence[asyncio.Event]) -> None:
    for event in events:
        await event.wait()


def _gaps(times: Sequence[Sequence[float]], began: float, ended: float) -> list[float]:
    """All waits within the time, those that it cuts included: a stream that says nothing has one."""
    gaps = []
    for each in times:
        within = [began, *(at for at in each if began < at < ended), ended]
        gaps += [later - earlier for earlier, later in pairwise(within)]
    return gaps


def _p99(values: Sequence[float]) -> float:
    """The 99th percentile, by rank: of few values the largest."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * 0.99), len(ordered) - 1)]


def compare(
    servers: tuple[Server, Server], numbers: Iterator[int], options: argparse.Namespace
) -> dict[str, Any]:
    """Pairs of rounds, and the ratios ours ÷ theirs of each."""
    ours, theirs = servers
    rounds: dict[str, list[Round]] = {ours.name: [], theirs.name: []}
    for pair in range(options.pairs):
        for server in (ours, theirs) if pair % 2 else (theirs, ours):
            rounds[server.name].append(asyncio.run(one_round(server, numbers, options)))
    pairs = list(zip(rounds[ours.name], rounds[theirs.name], strict=True))
    return {
        "gap_p99_ratio": spread([o.gap_p99_seconds / t.gap_p99_seconds for o, t in pairs]),
        "gap_max_ratio": spread([o.gap_max_seconds / t.gap_max_seconds for o, t in pairs]),
        "prefill_ratio": spread([o.prefill_seconds / t.prefill_seconds for o, t in pairs]),
        "rounds": {name: [asdict(each) for each in measured] for name, measured in rounds.items()},
    }


def main() -> None:
    """Measure, print the ratios, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", type=Path, help="model folder; the demo model without it")
    parser.add_argument("--streams", type=int, default=2, help="replies that run meanwhile")
    parser.add_argument(
        "--words", type=int, default=4000, help="words of the long prompt, about as many tokens"
    )
    parser.add_argument("--pairs", type=int, default=3, help="paired rounds")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/stall.json"))
    options = parser.parse_args()
    folder = str(options.model or demo_folder())
    numbers = iter(range(1, 10**9))
    with contextlib.ExitStack() as servers:
        port = free_port()
        command = [sys.executable, "-m", "app", "serve", "--model", folder, "--alias", folder]
        ours = servers.enter_context(running("samovar", [*command, "--port", str(port)], port, folder))
        port = free_port()
        command = [sys.executable, "-m", "mlx_lm", "server", "--model", folder, "--port", str(port)]
        theirs = servers.enter_context(running("mlx_lm.server", command, port, folder))
        result = compare((ours, theirs), numbers, options)
    for name, measured in result["rounds"].items():
        p99 = statistics.median(each["gap_p99_seconds"] for each in measured)
        prefill = statistics.median(each["prefill_seconds"] for each in measured)
        print(f"{name}: p99 of the gaps {p99:.2f} s, prefill {prefill:.1f} s")
    print({name: result[name] for name in ("gap_p99_ratio", "gap_max_ratio", "prefill_ratio")})
    asked = {name: getattr(options, name) for name in ("streams", "words", "pairs")}
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(
        json.dumps({"machine": describe_machine(), "options": asked, "result": result}, indent=1)
    )


if __name__ == "__main__":
    main()
