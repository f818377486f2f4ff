"""Models of real size through HTTP, beside what MLX itself needs for the same work on the same device.

`python -m benchmarks.device_bench [--shapes dense-8b,…] [--lengths 2048,…] [--streams 1,8,32] [--json FILE]`

A warm turn is compared with the same request cold, and with its limit: a copy of its state, the pass over its
new tokens and one step. Decoding is compared with a bare loop over mlx-lm's BatchGenerator in this process.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import mlx.core as mx
import psutil
from mlx_lm import load
from mlx_lm.models.cache import make_prompt_cache

from app.bench.machine import describe_machine, spread
from app.bench.replies import Connection, connected
from app.bench.talk import take_turn
from app.bench.texts import Message
from app.clock import monotonic
from benchmarks.decode_bench import MOST_STREAMS, line_of, looped, prompts_of, streamed, summary
from benchmarks.servers import Running, samovar
from benchmarks.shapes import make_shape

Loaded = tuple[Any, Any]
"""A model and its tokenizer."""

NEW_TOKENS = 32
PREFILL_CHUNK = 2048


def text_of(number: int, length: int) -> str:
    """So many characters, one token each, that begin as no other text does."""
    return (f"{number} " + "history " * (length // 8 + 1))[:length]


def median_seconds(work: Callable[[], object], times: int) -> float:
    """Of some runs after a first one."""
    taken = []
    for _ in range(times + 1):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken[1:])


async def first_text(connection: Connection, messages: Sequence[Message], **fields: Any) -> tuple[float, int]:
    """Seconds to the first text of a reply, and how many of the prompt's tokens were cached."""
    turn, _ = await take_turn(connection, messages, max_tokens=2, fields=fields)
    return turn.first_token_seconds, turn.cached_tokens or 0


async def turns(running: Running, length: int, numbers: Iterator[int], times: int) -> dict[str, Any]:
    """The second turn of conversations of `length` tokens, warm, and the same request cold."""
    warm, cold, told = [], [], []
    async with connected(running.server, monotonic) as connection:
        for _ in range(times + 1):
            number = next(numbers)
            history: list[Message] = [{"role": "user", "content": text_of(number, length)}]
            await first_text(connection, history, prompt_cache_key=str(number))
            # What is between the turns, marks included, is as long as NEW_TOKENS says.
            between = (
                len("ok<|im_end|>\n<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n")
                - 3 * len("<|im_start|>")
                + 3
            )
            text = "?" * max(NEW_TOKENS - between, 1)
            talk: list[Message] = [
                *history,
                {"role": "assistant", "content": "ok"},
                {"role": "user", "content": text},
            ]
            seconds, said = await first_text(connection, talk, prompt_cache_key=str(number))
            warm.append(seconds)
            told.append(said)
            seconds, _ = await first_text(connection, talk, cache_prompt=False)
            cold.append(seconds)
    return {
        "warm_seconds": warm[1:],
        "cold_seconds": cold[1:],
        "ratio": spread([w / c for w, c in zip(warm[1:], cold[1:], strict=True)]),
        "cache": told[1:],
    }


def limit_seconds(model: Any, length: int, times: int) -> dict[str, float]:
    """What MLX alone needs for a warm turn: copy the state, pass over the new tokens, one step."""
    cache = make_prompt_cache(model)
    for at in range(0, length, PREFILL_CHUNK):
        model(mx.zeros((1, min(PREFILL_CHUNK, length - at)), mx.int32), cache=cache)
        mx.eval([each.state for each in cache])

    def copy() -> None:
        mx.eval([array + 0 for each in cache for array in each.state if isinstance(array, mx.array)])

    def pass_over(tokens: int) -> Callable[[], None]:
        def work() -> None:
            mx.eval(mx.argmax(model(mx.zeros((1, tokens), mx.int32), cache=cache)[:, -1], axis=-1))

        return work

    return {
        "copy_seconds": median_seconds(copy, times),
        "tail_seconds": median_seconds(pass_over(NEW_TOKENS - 1), times),
        "step_seconds": median_seconds(pass_over(1), times),
    }


def decoding(running: Running, loaded: Loaded, streams: int, options: argparse.Namespace) -> dict[str, Any]:
    """Pairs of rounds in turn, HTTP ÷ bare, after one that warms both up."""
    process = psutil.Process(running.pid)
    port = urlsplit(running.server.url).port
    assert port is not None
    pairs = []
    for pair in range(options.pairs + 1):
        texts = prompts_of((streams * 100 + pair) * MOST_STREAMS, streams)
        alone = looped(*loaded, texts, options.max_tokens)
        served = asyncio.run(streamed(port, process, texts, options.max_tokens))
        pairs.append((alone, served))
    return summary(streams, pairs[1:]) | {
        "http": [served.tokens_per_second for _, served in pairs[1:]],
        "bare": [alone.tokens_per_second for alone, _ in pairs[1:]],
    }


def measure(name: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """One shape: turns at all lengths, and decoding at all numbers of streams."""
    path = str(make_shape(folder, name))
    flags = ("--scheduler-max-running", "32", "--snapshot-capacity-bytes", "40GiB")
    numbers = iter(range(1, 10**9))
    found: dict[str, Any] = {"turns": [], "decoding": []}
    with samovar(path, *flags) as server:
        model, tokenizer, *_ = load(path)
        for length in options.lengths:
            turn = asyncio.run(turns(server, length, numbers, options.pairs))
            limit = limit_seconds(model, length, options.pairs)
            turn |= {"length": length, "limit": limit}
            turn["over_limit"] = statistics.median(turn["warm_seconds"]) / sum(limit.values())
            found["turns"].append(turn)
            print(
                name,
                length,
                turn["ratio"],
                f"{turn['over_limit']:.2f} x limit",
                limit,
                turn["cache"][-1],
                flush=True,
            )
        for streams in options.streams:
            made = decoding(server, (model, tokenizer), streams, options)
            found["decoding"].append(made)
            print(name, line_of(made), flush=True)
    return found


def numbers_of(text: str) -> list[int]:
    """Numbers with commas between them."""
    return [int(part) for part in text.split(",")]


def main() -> None:
    """Measure, print, write JSON after each shape."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--shapes", default="dense-8b,hybrid-2b,sliding-4b")
    parser.add_argument("--lengths", type=numbers_of, default=[2048, 8192, 32768])
    parser.add_argument("--streams", type=numbers_of, default=[1, 8, 32])
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "samovar-shapes")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/device.json"))
    options = parser.parse_args()
    results: dict[str, Any] = {}
    for name in options.shapes.split(","):
        results[name] = measure(name, options.folder, options)
        options.json.parent.mkdir(parents=True, exist_ok=True)
        machine = {
            **describe_machine(),
            "device": str(mx.device_info().get("device_name", mx.default_device())),
        }
        asked = {key: getattr(options, key) for key in ("pairs", "max_tokens")} | {"new_tokens": NEW_TOKENS}
        options.json.write_text(
            json.dumps({"machine": machine, "options": asked, "results": results}, indent=1)
        )


if __name__ == "__main__":
    main()
