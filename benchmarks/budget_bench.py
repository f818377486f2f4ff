"""How much several conversations compute over a fixed budget of snapshots: Samovar beside mlx_lm.server.

`python -m benchmarks.budget_bench [--conversations N] [--turns N] [--shares 0.5,1,…] [--json FILE]`

The conversations take turns in an order that is random and the same for both, on a tiny hybrid model whose
state serves as a whole or not at all. The budget is a number of snapshots, the one limit that both have:
`--snapshot-max-entries` and `--prompt-cache-size`. Counts, not times: they are the same on every machine.
"""

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx

from app.bench.machine import describe_machine
from app.bench.texts import Message, words_of
from benchmarks.interleaved import Reuse, Talks, interleave, reuse_of
from benchmarks.servers import MLX_LM, Running, mlx_lm, samovar
from tests.support.scripted_model import make_scripted_model
from tests.support.tiny import CHATML

FAMILY = "lfm2"
WORDS = 30
REPLY_WORDS = 12
MAX_TOKENS = 150
WARMUPS_SECONDS = 60.0


def talks_of(conversations: int, turns: int) -> Talks:
    """What is said in each conversation; every message ends as no other does."""
    return [
        [
            {"role": "user", "content": f"{words_of(f'{talk} {turn}', WORDS)}, says {talk} in turn {turn}."}
            for turn in range(turns)
        ]
        for talk in range(conversations)
    ]


def lines_of(talks: Talks) -> Sequence[tuple[Sequence[Message], str]]:
    """What the model says to each message."""
    return [
        ((message,), f"{words_of(f'reply {talk} {turn}', REPLY_WORDS)}.")
        for talk, messages in enumerate(talks)
        for turn, message in enumerate(messages)
    ]


async def warmed(running: Running, replies: int) -> None:
    """Wait until the server has prepared, or has given up, the next turn after each of its replies."""
    if running.name == MLX_LM:
        return
    deadline = time.monotonic() + WARMUPS_SECONDS
    async with httpx.AsyncClient(base_url=running.server.url) as client:
        while True:
            text = (await client.get("/metrics")).raise_for_status().text
            ended = sum(
                float(line.rpartition(" ")[2])
                for line in text.splitlines()
                if line.startswith("samovar_warmups_total{") and '"preempted"' not in line
            )
            # One more than replies: the request that found the server ready had one, too.
            if ended > replies:
                return
            if time.monotonic() > deadline:
                raise SystemExit(f"{ended:.0f} warm-ups ended after {replies} replies")
            await asyncio.sleep(0.01)


def measure(running: Running, talks: Talks) -> Reuse:
    """All conversations on one server."""

    async def between(replies: int) -> None:
        await warmed(running, replies)

    return reuse_of(
        asyncio.run(interleave(running, talks, max_tokens=MAX_TOKENS, fields={}, between=between))
    )


def compare(model: str, talks: Talks, budget: int) -> dict[str, Any]:
    """Both servers with room for `budget` snapshots. The model brings the code that makes it speak."""
    limits = (
        (samovar, ("--snapshot-max-entries", str(budget), "--snapshot-capacity-bytes", "1GiB")),
        (mlx_lm, ("--prompt-cache-size", str(budget))),
    )
    found = {}
    for start, flags in limits:
        with start(model, "--trust-remote-code", *flags) as running:
            found[running.name] = asdict(measure(running, talks))
    return {"budget": budget, "servers": found}


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--conversations", type=int, default=6)
    parser.add_argument("--turns", type=int, default=5, help="of each conversation")
    parser.add_argument("--shares", default="0.5,1,2,3,4", help="budgets, in snapshots a conversation")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/budget.json"))
    options = parser.parse_args()
    talks = talks_of(options.conversations, options.turns)
    budgets = [round(float(share) * options.conversations) for share in options.shares.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        model = make_scripted_model(Path(folder) / FAMILY, FAMILY, lines_of(talks), chat_template=CHATML)
        results = [compare(str(model), talks, budget) for budget in budgets]
    print("snapshots   computed, ours and theirs      later turns that hit, ours and theirs")
    for result in results:
        ours, theirs = result["servers"].values()
        print(
            f"{result['budget']:9d}   "
            + " and ".join(
                f"{each['computed_tokens'] / each['prompt_tokens']:.0%}" for each in (ours, theirs)
            )
            + "   "
            + " and ".join(f"{each['hits']}/{each['later_turns']}" for each in (ours, theirs))
        )
    asked = {"conversations": options.conversations, "turns": options.turns, "family": FAMILY}
    options.json.write_text(
        json.dumps({"machine": describe_machine(), "options": asked, "results": results}, indent=1)
    )


if __name__ == "__main__":
    main()
