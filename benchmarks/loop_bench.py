"""What a token costs the event loop: processor time of its thread, from the engine's word to the socket.

`python -m benchmarks.loop_bench [--streams 1,8,32] [--tokens N] [--rounds N] [--json FILE]`

The whole server but for the model: Granian, routes, the demo model's tokenizer, and an engine that says the
tokens of a text, one a step for every stream. Clients live in a process of their own.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import uvloop
from mlx_lm.utils import load_tokenizer
from opentelemetry.trace import NoOpTracer

from app.api.application import create_app
from app.api.ports import Cleared, Health, Phase
from app.api.services import Limits, Services
from app.api.stream import LoopSink, OpenRequests
from app.bench.machine import describe_machine, spread
from app.bus import discard
from app.clock import monotonic
from app.engine.chat_model import ServedChatModel
from app.engine.loader import LoadedModel
from app.listener import listening, reserve_address
from app.scheduler.job import Delta, Generated, Job, JobId, Started
from app.vocabulary import FinishReason
from benchmarks.demo import demo_folder

TEXT = "The samovar stands on the table, its copper warm: “Tea?” asks the host, and pours, 12 cups in all.\n"
WAIT_SECONDS = 120.0


class TextEngine:
    """Says the tokens of a text to every job, one a step, once it has as many jobs as a round has streams."""

    def __init__(self, sink: LoopSink, model: ServedChatModel, *, step_seconds: float) -> None:
        self.model = model
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        self._step_seconds = step_seconds
        self._tokens = model.tokenise(TEXT, special=False)
        self._jobs: list[Job] = []
        self._came = asyncio.Event()

    def health(self) -> Health:
        return Health(Phase.READY, "", running=len(self._jobs), waiting=0)

    @contextlib.contextmanager
    def expecting(self) -> Iterator[None]:
        yield

    def submit(self, job: Job) -> None:
        self._jobs.append(job)
        self._came.set()

    def cancel(self, job_id: JobId) -> None:
        raise SystemExit(f"{job_id} was cancelled")

    def finish(self, job_id: JobId) -> None:
        raise SystemExit(f"{job_id} was ended by its text")

    def warm_up(self, job: Job) -> None:
        raise SystemExit(f"{job.id} is no request")

    async def reset(self, tenant: str | None = None) -> Cleared:
        raise NotImplementedError

    async def forget_session(self, tenant: str, session: str) -> Cleared:
        raise NotImplementedError

    async def round(self, streams: int, tokens: int) -> float:
        """Once all streams are there, say `tokens` tokens to each; the loop's processor time before that."""
        async with asyncio.timeout(WAIT_SECONDS):
            while len(self._jobs) < streams:
                self._came.clear()
                await self._came.wait()
        jobs, self._jobs = self._jobs, []
        began = time.thread_time()
        await asyncio.to_thread(self._say, jobs, tokens)
        return began

    def _say(self, jobs: list[Job], tokens: int) -> None:
        self._sink([(job.id, Started(0, None)) for job in jobs])
        for step, token in zip(range(tokens), itertools.cycle(self._tokens), strict=False):
            time.sleep(self._step_seconds)
            finish = FinishReason.LENGTH if step == tokens - 1 else None
            deltas: list[tuple[JobId, Delta]] = [(job.id, Generated(token, None, finish)) for job in jobs]
            self._sink(deltas)
            # A loop that is late would find several tokens at once, which cost less: wait for it.
            turned = threading.Event()
            self._loop.call_soon_threadsafe(turned.set)
            turned.wait()


def tokenizer_only() -> ServedChatModel:
    """The demo model without its weights."""
    loaded = LoadedModel(
        name="demo",
        aliases=(),
        family="llama",
        network=None,
        tokenizer=load_tokenizer(demo_folder()),
        context_length=8192,
        cache_signature="none",
        cache_kinds=(),
        truncatable=True,
        adapter="",
        folder=demo_folder(),
    )
    return ServedChatModel(loaded, unix_seconds=time.time, on_declined=lambda _reason: None)


async def read_streams(port: int, streams: int, tokens: int) -> int:
    """The client's side of a round: how many events its streams had in all."""
    request = {
        "messages": [{"role": "user", "content": "Tea?"}],
        "stream": True,
        "max_tokens": tokens,
    }
    body = json.dumps(request).encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\ncontent-length: %d\r\n\r\n" % len(body)

    async def one() -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head + body)
        events = 0
        async for line in reader:
            events += line.startswith(b"data: ")
            if line.startswith(b"data: [DONE]"):
                break
        writer.close()
        return events

    return sum(await asyncio.gather(*(one() for _ in range(streams))))


async def measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Microseconds of the loop's thread for a token, by the number of streams."""
    sink = LoopSink(asyncio.get_running_loop())
    engine = TextEngine(sink, tokenizer_only(), step_seconds=options.step_seconds)
    app = create_app(
        Services(
            engine=engine,
            sink=sink,
            requests=OpenRequests(),
            emit=discard,
            tracer=NoOpTracer(),
            clock=monotonic,
            unix_seconds=time.time,
            new_id=lambda: uuid.uuid4().hex,
            metrics=None,
            cache_stats=lambda _tenant: {},
            limits=Limits(max_request_bytes=2**20, request_seconds=600, keepalive_seconds=15),
            version="0",
            uptime_seconds=monotonic,
            snapshot_fill=lambda: None,
            recent_requests=tuple,
        )
    )
    address = reserve_address("127.0.0.1", 0)
    rows = []
    async with listening(app, address, connections=256):
        for streams in map(int, options.streams.split(",")):
            costs, events = [], 0
            for _ in range(options.rounds):
                client = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "benchmarks.loop_bench", "--tokens", str(options.tokens)),
                    *("--streams", str(streams), "--client", str(address[1])),
                    stdout=asyncio.subprocess.PIPE,
                )
                saying = asyncio.ensure_future(engine.round(streams, options.tokens))
                out, _ = await client.communicate()
                spent = time.thread_time() - await saying
                if client.returncode:
                    raise SystemExit("the clients failed")
                events += int(out)
                costs.append(spent / (streams * options.tokens) * 1e6)
            rows.append(
                {
                    "streams": streams,
                    "microseconds_a_token": spread(costs),
                    "events_a_token": events / (options.rounds * streams * options.tokens),
                }
            )
    return rows


def main() -> None:
    """Measure and print; as `--client`, read streams and print how many events came."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", default="1,8,32")
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--step-seconds", type=float, default=0.004)
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/loop.json"))
    parser.add_argument("--client", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client:
        print(asyncio.run(read_streams(options.client, int(options.streams), options.tokens)))
        return
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        rows = runner.run(measure(options))
    for row in rows:
        cost = row["microseconds_a_token"]
        print(
            f"{row['streams']:>3} streams: {cost['median']:.0f} µs a token"
            f" ({cost['min']:.0f} to {cost['max']:.0f}), {row['events_a_token']:.2f} events a token"
        )
    result = {"machine": describe_machine(), "tokens": options.tokens, "results": rows}
    options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
