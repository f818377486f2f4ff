"""Decoding through HTTP beside a bare loop over mlx-lm's BatchGenerator: what serving a token costs.

`python -m benchmarks.decode_bench [--streams 1,8,32] [--tokens N] [--rounds N] [--json FILE]`

Both run the same model in a process of their own on one core, in turn; the clients are on another. A model
whose step takes 5 to 10 ms with one stream is small for a server: what is not the model weighs more here than
it will. Processor time is what is compared besides the speed: it does not depend on who else is busy.
"""

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import httpx
import mlx.core as mx
import psutil
from mlx_lm import load
from mlx_lm.generate import BatchGenerator

from app.bench.machine import describe_machine, spread
from benchmarks.shapes import make_shape

SHAPE = "small-20m"
PROMPT_CHARACTERS = 64
WAIT_SECONDS = 120.0
MOST_STREAMS = 32


@dataclass(frozen=True)
class Decoded:
    """Tokens after each stream's first, the time they took and the processor time of their process."""

    tokens: int
    seconds: float
    processor_seconds: float

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds

    @property
    def processor_milliseconds(self) -> float:
        """Of one token."""
        return self.processor_seconds / self.tokens * 1e3


def prompts_of(first: int, streams: int) -> list[str]:
    """So many texts, numbered from `first` on, that begin as no other does."""
    return [f"{number:06} ".ljust(PROMPT_CHARACTERS, "x") for number in range(first, first + streams)]


def bare(folder: str) -> None:
    """Answers each line `streams tokens first-number` with what a bare loop needed; ends with its input."""
    model, tokenizer, *_ = load(folder)
    for line in sys.stdin:
        streams, tokens, first = map(int, line.split())
        print(json.dumps(astuple(looped(model, tokenizer, prompts_of(first, streams), tokens))), flush=True)


def looped(model: Any, tokenizer: Any, texts: list[str], tokens: int) -> Decoded:
    """A loop over BatchGenerator that does nothing with the tokens, from when all streams have begun."""
    generator = BatchGenerator(
        model,
        stop_tokens=[[token] for token in tokenizer.eos_token_ids],
        completion_batch_size=MOST_STREAMS,
        prefill_batch_size=8,
        prefill_step_size=512,
        max_tokens=tokens,
    )
    prompts = [
        tokenizer.apply_chat_template([{"role": "user", "content": text}], add_generation_prompt=True)
        for text in texts
    ]
    try:
        generator.insert(prompts)
        started: set[int] = set()
        made = 0
        while len(started) < len(prompts):
            _, replies = generator.next()
            started |= {reply.uid for reply in replies}
            made += len(replies)
        before, began, spent = made, time.perf_counter(), time.process_time()
        while made < len(prompts) * tokens:
            made += len(generator.next()[1])
        return Decoded(made - before, time.perf_counter() - began, time.process_time() - spent)
    finally:
        generator.close()


async def streamed(port: int, process: psutil.Process, texts: list[str], tokens: int) -> Decoded:
    """The same prompts and as many tokens, each streamed over a connection of its own."""
    seen = [0] * len(texts)
    began = spent = 0.0
    before = 0

    async def one(index: int, text: str) -> None:
        nonlocal began, spent, before
        request = {
            "messages": [{"role": "user", "content": text}],
            "stream": True,
            "max_tokens": tokens,
            "temperature": 0,
            "cache_prompt": False,
        }
        body = json.dumps(request).encode()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\ncontent-length: %d\r\n\r\n" % len(body)
        writer.write(head + body)
        async for line in reader:
            if line.startswith(b"data: [DONE]"):
                break
            if b'"content":"' not in line or b'"role"' in line:
                continue
            seen[index] += 1
            if not began and all(seen):
                began, spent, before = time.perf_counter(), _processor_seconds(process), sum(seen)
        writer.close()

    async with asyncio.timeout(WAIT_SECONDS):
        await asyncio.gather(*(one(index, text) for index, text in enumerate(texts)))
    seconds, processor = time.perf_counter() - began, _processor_seconds(process) - spent
    # Each token of this vocabulary is a word of its own, and an event.
    if abs(sum(seen) - tokens * len(texts)) > len(texts):
        raise SystemExit(f"{sum(seen)} events came of {tokens * len(texts)} tokens")
    return Decoded(sum(seen) - before, seconds, processor)


def _processor_seconds(process: psutil.Process) -> float:
    spent = process.cpu_times()
    return float(spent.user + spent.system)


@contextlib.contextmanager
def on_core(core: int, *command: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A Python process on one core, for as long as the block lasts."""
    pinned = ["taskset", "--cpu-list", str(core), sys.executable, "-m", *command]
    # More threads than cores would wait for each other.
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen(pinned, text=True, env=environment, **options) as process:
        try:
            yield process
        finally:
            process.terminate()


def wait_until_ready(url: str, process: subprocess.Popen[str]) -> None:
    """Return once the server's model is loaded."""
    until = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"{url}/readyz").is_success:
                return
        time.sleep(0.2)
    raise SystemExit("the server did not start")


def measure(options: argparse.Namespace, folder: str, port: int) -> list[dict[str, Any]]:
    """Pairs of rounds in turn, by the number of streams."""
    engine_core, client_core = sorted(os.sched_getaffinity(0))[:2]
    os.sched_setaffinity(0, {client_core})
    serve = ["app", "serve", "--port", str(port), "--model", folder]
    serve += ["--scheduler-max-running", str(MOST_STREAMS), "--telemetry-log-level", "error"]
    quiet = {"stdout": subprocess.DEVNULL}
    loop = ["benchmarks.decode_bench", "--bare", folder]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    rows, numbers = [], iter(range(0, 10**6, MOST_STREAMS))
    with on_core(engine_core, *serve, **quiet) as server, on_core(engine_core, *loop, **pipes) as alone:
        wait_until_ready(f"http://127.0.0.1:{port}", server)
        process = psutil.Process(server.pid)
        assert alone.stdin is not None
        assert alone.stdout is not None
        for streams in options.streams:
            pairs: list[tuple[Decoded, Decoded]] = []
            for turn in range(options.rounds + 1):
                first = next(numbers)
                alone.stdin.write(f"{streams} {options.tokens} {first}\n")
                alone.stdin.flush()
                by_itself = Decoded(*json.loads(alone.stdout.readline()))
                texts = prompts_of(first, streams)
                served = asyncio.run(streamed(port, process, texts, options.tokens))
                if turn:  # the first round warms both up
                    pairs.append((by_itself, served))
            rows.append(summary(streams, pairs))
            print(line_of(rows[-1]), flush=True)
    return rows


def summary(streams: int, pairs: list[tuple[Decoded, Decoded]]) -> dict[str, Any]:
    """What the pairs say: HTTP ÷ bare, and the milliseconds of a token in both."""
    return {
        "streams": streams,
        "tokens_per_second_ratio": spread(
            [served.tokens_per_second / bare.tokens_per_second for bare, served in pairs]
        ),
        "processor_ratio": spread(
            [bare.processor_milliseconds / served.processor_milliseconds for bare, served in pairs]
        ),
        "bare_milliseconds": spread([bare.processor_milliseconds for bare, _ in pairs]),
        "served_milliseconds": spread([served.processor_milliseconds for _, served in pairs]),
    }


def line_of(row: dict[str, Any]) -> str:
    """For people."""
    speed, processor = row["tokens_per_second_ratio"], row["processor_ratio"]
    return (
        f"{row['streams']:>3} streams: {speed['median']:.3f} ({speed['min']:.3f} to {speed['max']:.3f}) of a "
        f"bare loop's tokens a second, {processor['median']:.3f} of its tokens a second of processor time: "
        f"{row['served_milliseconds']['median']:.3f} ms a token for {row['bare_milliseconds']['median']:.3f}"
    )


def main() -> None:
    """Measure, print, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--streams", type=lambda text: [int(part) for part in text.split(",")], default=[1, 8, 32]
    )
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--port", type=int, default=18_099)
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/decode.json"))
    parser.add_argument("--bare", metavar="FOLDER", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.bare:
        bare(options.bare)
        return
    # CPUs are slow at bfloat16.
    folder = str(make_shape(Path(tempfile.gettempdir()) / "samovar-shapes", SHAPE, dtype=mx.float32))
    rows = measure(options, folder, options.port)
    result = {"machine": describe_machine(), "tokens": options.tokens, "results": rows}
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
