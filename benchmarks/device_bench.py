"""Models of real size through HTTP, beside what MLX itself needs for the same work on the same device.

`python -m benchmarks.device_bench [--shapes dense-8b,…] [--lengths 2048,…] [--streams 1,8,32] [--folder …]`

A warm turn is compared with the same request cold, with its limit (a copy of its state, the pass over its new
tokens and one step) and with mlx_lm.server's. Decoding is compared with a bare loop over mlx-lm's
BatchGenerator in this process.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
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
from benchmarks.servers import MLX_LM, SAMOVAR, Running, mlx_lm, samovar
from benchmarks.shapes import make_shape

Loaded = tuple[Any, Any]
"""A model and its tokenizer."""

NEW_TOKENS = 32
PREFILL_CHUNK = 2048
KEPT_BYTES = 2 << 30


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


def next_turn(history: Sequence[Message]) -> list[Message]:
    """The history, a reply and a question: NEW_TOKENS more than the prompt before, marks included."""
    # The template's text, one token a character; each mark is one token.
    between = len("ok") + len("|\n|user\n") + len("|\n|assistant\n")
    return [
        *history,
        {"role": "assistant", "content": "ok"},
        {"role": "user", "content": "?" * (NEW_TOKENS - between)},
    ]


async def turns(running: Running, length: int, numbers: Iterator[int], times: int) -> list[dict[str, Any]]:
    """Conversations of `length` tokens: seconds of the first turn, of the next, and of the next one cold.

    The last is ours alone: others are not told to leave their caches. The first conversation warms up.
    """
    measured = []
    async with connected(running.server, monotonic) as connection:
        for number in islice(numbers, times + 1):
            history: list[Message] = [{"role": "user", "content": text_of(number, length)}]
            talk = next_turn(history)
            first, _ = await first_text(connection, history, prompt_cache_key=str(number))
            warm, cached = await first_text(connection, talk, prompt_cache_key=str(number))
            turn: dict[str, Any] = {"first_seconds": first, "warm_seconds": warm, "cached_tokens": cached}
            if running.name == SAMOVAR:
                turn["cold_seconds"], _ = await first_text(connection, talk, cache_prompt=False)
            measured.append(turn)
    return measured[1:]


def limit_seconds(model: Any, length: int, times: int) -> dict[str, float]:
    """What MLX alone needs for a warm turn: copy the state, pass over the new tokens, one step.

    Each is the median of passes of one and the same length, for which the device has prepared itself.
    """
    cache = make_prompt_cache(model)
    for at in range(0, length, PREFILL_CHUNK):
        model(mx.zeros((1, min(PREFILL_CHUNK, length - at)), mx.int32), cache=cache)
        mx.eval([each.state for each in cache])

    def copy() -> None:
        mx.eval([array + 0 for each in cache for array in each.state if isinstance(array, mx.array)])

    def pass_over(tokens: int) -> Callable[[], None]:
        def work() -> None:
            mx.eval(mx.argmax(model(mx.zeros((1, tokens), mx.int32), cache=cache)[:, -1], axis=-1))
            for each in cache:
                if each.is_trimmable():
                    each.trim(tokens)

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
    """One shape: turns at all lengths, decoding at all numbers of streams, and turns of mlx_lm.server."""
    path = str(make_shape(folder, name))
    flags = ("--scheduler-max-running", str(MOST_STREAMS), "--snapshot-capacity-bytes", "40GiB")
    numbers = iter(range(1, 10**9))
    rows: dict[int, dict[str, Any]] = {}
    made = []
    with samovar(path, *flags) as server:
        model, tokenizer, *_ = load(path)
        for length in options.lengths:
            measured = asyncio.run(turns(server, length, numbers, options.pairs))
            limit = limit_seconds(model, length, options.pairs)
            mx.clear_cache()
            warm = [turn["warm_seconds"] for turn in measured]
            rows[length] = {
                "length": length,
                SAMOVAR: measured,
                "limit": limit,
                "warm_to_cold": spread([turn["warm_seconds"] / turn["cold_seconds"] for turn in measured]),
                "warm_to_limit": spread([seconds / sum(limit.values()) for seconds in warm]),
            }
            print(name, rows[length], flush=True)
        for streams in options.streams:
            made.append(decoding(server, (model, tokenizer), streams, options))
            print(name, line_of(made[-1]), flush=True)
    del model
    mx.clear_cache()
    with mlx_lm(path) as peer:
        for length in options.lengths:
            if length <= options.peer_length:
                rows[length][MLX_LM] = asyncio.run(turns(peer, length, numbers, options.pairs))
                print(name, MLX_LM, rows[length][MLX_LM], flush=True)
    return {"shape": name, "turns": list(rows.values()), "decoding": made}


def numbers_of(text: str) -> list[int]:
    """Numbers with commas between them."""
    return [int(part) for part in text.split(",")]


def main() -> None:
    """Measure, print, write JSON after each shape."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--shapes", default="dense-8b,hybrid-2b,sliding-4b")
    parser.add_argument("--lengths", type=numbers_of, default=[2048, 8192, 32768, 131072])
    parser.add_argument("--peer-length", type=int, default=32768, help="longest history for mlx_lm.server")
    parser.add_argument("--streams", type=numbers_of, default=[1, 8, 32])
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--max-tokens", type=int, default=256)
    parser.add_argument("--models", type=Path, default=Path(tempfile.gettempdir()) / "samovar-shapes")
    parser.add_argument("--folder", type=Path, default=Path("benchmarks/results"), help="for the results")
    options = parser.parse_args()
    # What this process keeps for itself is missing to the server beside it.
    mx.set_cache_limit(KEPT_BYTES)
    asked = {key: getattr(options, key) for key in ("pairs", "max_tokens")} | {"new_tokens": NEW_TOKENS}
    device = {"device": str(mx.device_info().get("device_name", mx.default_device()))}
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.shapes.split(","):
        result = {
            "machine": describe_machine() | device,
            "options": asked,
            "result": measure(name, options.models, options),
        }
        (options.folder / f"device_{name}.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
