"""Samovar beside mlx-lm's own server: the same model, machine, requests and client, in turn in one run.

`python -m benchmarks.serving_bench [--model FOLDER | --shape NAME] [--clients 1,4,8] [--pairs N]
[--json FILE]`

Each pair is one round on either server, the order changing from pair to pair; a result is the median of
the pairs' ratios. All prompts differ from their first token on, so nothing comes out of a cache.
"""

import argparse
import asyncio
import itertools
import json
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from app.bench.machine import describe_machine, spread
from app.bench.replies import connected
from app.bench.speed import Load, Round, round_of
from app.clock import monotonic
from benchmarks.chosen_model import add_model_flags, chosen_model
from benchmarks.servers import Running, mlx_lm, samovar


async def one_round(running: Running, load: Load, tags: Iterator[str], fields: Mapping[str, Any]) -> Round:
    """A round of one server, all of whose replies went to their limit, for which `fields` ask."""
    async with connected(running.server, monotonic) as connection:
        measured = await round_of(connection, load, tags, fields=fields)
    expected = load.clients * load.requests * load.max_tokens
    assert measured.tokens == expected, f"{running.name} made {measured.tokens} of {expected} tokens"
    return measured


def compare(
    servers: tuple[Running, Running],
    load: Load,
    tags: Iterator[str],
    *,
    pairs: int,
    fields: Mapping[str, Any],
) -> dict[str, Any]:
    """Pairs of rounds, and the ratios ours ÷ theirs of each."""
    ours, theirs = servers
    rounds: dict[str, list[Round]] = {ours.name: [], theirs.name: []}
    for pair in range(pairs + 1):
        for server in (ours, theirs) if pair % 2 else (theirs, ours):
            measured = asyncio.run(one_round(server, load, tags, fields))
            if pair:  # the first pair warms both up
                rounds[server.name].append(measured)
    both = list(zip(rounds[ours.name], rounds[theirs.name], strict=True))
    median = statistics.median
    return {
        "clients": load.clients,
        "throughput_ratio": spread([o.tokens_per_second / t.tokens_per_second for o, t in both]),
        "first_token_ratio": spread(
            [median(o.first_token_seconds) / median(t.first_token_seconds) for o, t in both]
        ),
        "rounds": {name: [asdict(each) for each in measured] for name, measured in rounds.items()},
    }


def load_of(clients: str, options: argparse.Namespace) -> Load:
    """So many clients, and the rest as the flags say."""
    return Load(int(clients), options.requests, options.words, options.max_tokens)


def main() -> None:
    """Measure, print a table of ratios, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add_model_flags(parser)
    parser.add_argument("--clients", default="1,4,8", help="numbers of clients at a time")
    parser.add_argument("--pairs", type=int, default=6, help="paired rounds for each number of clients")
    parser.add_argument("--requests", type=int, default=2, help="requests of each client in a round")
    parser.add_argument("--max-tokens", type=int, default=32, help="tokens of each reply")
    parser.add_argument("--words", type=int, default=60, help="words of each prompt, about as many tokens")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/serving.json"))
    options = parser.parse_args()
    model = chosen_model(options)
    folder = str(model.folder)
    tags = map(str, itertools.count(1))
    with samovar(folder) as first, mlx_lm(folder) as second:
        results = [
            compare(
                (first, second),
                load_of(clients, options),
                tags,
                pairs=options.pairs,
                fields=model.to_the_limit,
            )
            for clients in options.clients.split(",")
        ]
    print("clients   tokens/s, ours ÷ mlx_lm.server     time to first token, ours ÷ mlx_lm.server")
    for result in results:
        speed, wait = result["throughput_ratio"], result["first_token_ratio"]
        print(
            f"{result['clients']:7d}   {speed['median']:.2f}  ({speed['min']:.2f} to {speed['max']:.2f})"
            f"                 {wait['median']:.2f}  ({wait['min']:.2f} to {wait['max']:.2f})"
        )
    asked = {"model": model.told} | {
        name: getattr(options, name) for name in ("pairs", "requests", "max_tokens", "words")
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(
        json.dumps({"machine": describe_machine(), "options": asked, "results": results}, indent=1)
    )


if __name__ == "__main__":
    main()
