"""A conversation's next turn, by the length of its history: warm beside cold, and how much of it is MLX.

`python -m benchmarks.turn_bench [--lengths 2048,…] [--pairs N] [--json FILE]`

The models are as small as the arithmetic allows, so that what is left is the server's own work: a dense one
and a hybrid, with one layer of each kind, and the demo model's tokenizer and vocabulary. A history is many
short messages. MLX's work is measured by itself: a copy of the state, the new tokens, the copy that is kept,
and the steps up to the first token, all through mlx-lm's BatchGenerator.
"""

import argparse
import asyncio
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm import load
from mlx_lm.generate import BatchGenerator
from mlx_lm.models.cache import make_prompt_cache

from app.bench.machine import describe_machine, spread
from app.bench.replies import Connection, connected
from app.bench.texts import Message, words_of
from app.clock import monotonic
from app.engine.payload import SealedState, seal
from benchmarks.chosen_model import TO_THE_LIMIT
from benchmarks.demo import demo_folder
from benchmarks.servers import Running, samovar
from tests.support.tiny import make_tiny_model

MESSAGE_WORDS = 100
NEW_WORDS = 12
"""With the reply to the last question and the template's words, about 32 tokens."""

_SMALL: Mapping[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "vocab_size": 49_152,
    "max_position_embeddings": 65_536,
    "eos_token_id": 2,
}
SHAPES: Mapping[str, Mapping[str, Any]] = {
    "llama": {**_SMALL, "num_hidden_layers": 1},
    "lfm2": {**_SMALL, "num_hidden_layers": 2, "block_dim": 32, "block_ff_dim": 64, "full_attn_idxs": [1]},
}
"""Family → what is changed of the tests' tiny model of it."""


def make_small_model(folder: Path, family: str) -> Path:
    """A random model with the demo model's tokenizer and template."""
    made = make_tiny_model(folder / family, family, changes=SHAPES[family])
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(demo_folder() / name, made / name)
    return made


def history_of(tokenizer: Any, tag: str, tokens: int) -> list[Message]:
    """Questions and answers of so many tokens, the last one a question."""
    messages: list[Message] = []
    while not messages or len(tokenizer.apply_chat_template(messages)) < tokens:
        # In steps, because a history that is rendered for each message is rendered very often.
        for number in range(len(messages), len(messages) + max(tokens // 2_000, 1) * 2):
            role = "assistant" if number % 2 else "user"
            messages.append({"role": role, "content": words_of(f"{tag} {number}", MESSAGE_WORDS)})
    return messages[:-1]


async def first_token_seconds(connection: Connection, messages: Sequence[Message], **fields: Any) -> float:
    """How long a client waits for a reply's first token."""
    # A random model may end its turn with its first token, which has no text.
    reply = await connection.ask(messages, max_tokens=2, fields={**TO_THE_LIMIT, **fields})
    return reply.first_token_seconds


async def turns(
    running: Running, tokenizer: Any, tokens: int, pairs: int, bare: Callable[[], float]
) -> list[dict[str, float]]:
    """Seconds of conversations' last turns, warm, cold, and MLX's by itself; the first is left out."""
    measured = []
    async with connected(running.server, monotonic) as connection:
        for pair in range(pairs + 1):
            tag = f"{tokens} {pair}"
            history = history_of(tokenizer, tag, tokens)
            talk: list[Message] = [
                *history,
                {"role": "assistant", "content": "ok"},
                {"role": "user", "content": words_of(tag, NEW_WORDS)},
            ]
            await first_token_seconds(connection, history, prompt_cache_key=tag)
            warm = await first_token_seconds(connection, talk, prompt_cache_key=tag)
            # Nothing is remembered of a session that has another name.
            again = {"prompt_cache_key": f"{tag}, again", "cache_prompt": False}
            cold = await first_token_seconds(connection, talk, **again)
            measured.append({"warm": warm, "cold": cold, "mlx": bare()})
    return measured[1:]


def state_of(network: Any, tokens: Sequence[int], chunk: int = 512) -> SealedState:
    """The state after some tokens, as the server keeps it."""
    caches = make_prompt_cache(network)
    for at in range(0, len(tokens), chunk):
        network(mx.array([list(tokens[at : at + chunk])]), cache=caches)
        mx.eval([each.state for each in caches])
    return seal(caches, len(tokens))


def mlx_seconds(network: Any, state: SealedState, new: Sequence[int]) -> float:
    """What mlx-lm takes from a kept state to the first token, with the copy of the state before it."""
    generator = BatchGenerator(network, stop_tokens=[])
    try:
        began = time.perf_counter()
        (uid,) = generator.insert_segments(
            [[list(new[:-1]), list(new[-1:])]], max_tokens=[2], caches=[state.restore(state.n_tokens)]
        )
        kept: SealedState | None = None
        replies: list[Any] = []
        while not replies:
            _, replies = generator.next()
            if kept is None:
                caches, _ = generator.extract_cache([uid])[uid]
                kept = seal(caches, state.n_tokens + len(new) - 1)
        return time.perf_counter() - began
    finally:
        generator.close()


def measure(family: str, folder: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """One shape at all lengths."""
    path = str(make_small_model(folder, family))
    network, tokenizer, *_ = load(path)
    new = tokenizer.encode(words_of("new", NEW_WORDS * 2))[:32]
    rows = []
    with samovar(path, "--snapshot-capacity-bytes", "1GiB") as running:
        for length in options.lengths:
            state = state_of(network, (new * (length // len(new) + 1))[:length])
            bare = partial(mlx_seconds, network, state, new)
            seconds = asyncio.run(turns(running, tokenizer, length, options.pairs, bare))
            row = {
                "family": family,
                "tokens": length,
                "seconds": seconds,
                "warm_to_cold": spread([each["warm"] / each["cold"] for each in seconds]),
                "mlx_to_warm": spread([each["mlx"] / each["warm"] for each in seconds]),
            }
            rows.append(row)
            print(
                f"{family:8s} {length:6d} tokens: warm ÷ cold {row['warm_to_cold']['median']:.4f}, "
                f"MLX's part of it {row['mlx_to_warm']['median']:.2f}",
                flush=True,
            )
    return rows


def main() -> None:
    """Measure, print, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--lengths", type=lambda text: [int(n) for n in text.split(",")], default=[2048, 8192, 32768]
    )
    parser.add_argument("--pairs", type=int, default=5, help="conversations of each length")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/turn.json"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = [row for family in SHAPES for row in measure(family, Path(folder), options)]
    options.json.write_text(
        json.dumps(
            {"machine": describe_machine(), "options": {"pairs": options.pairs}, "rows": rows}, indent=1
        )
    )


if __name__ == "__main__":
    main()
