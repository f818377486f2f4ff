"""How long running replies stand still while a long prompt is prefilled, beside mlx-lm's own server.

`python -m benchmarks.stall_bench [--model FOLDER | --shape NAME] [--streams N] [--tokens N] [--pairs N]
[--json FILE]`

In each round some clients stream; once all of them have text, another one sends a long prompt. Counted are
the gaps between the frames of the streams from then until that prompt's first token. Each pair is one round
on either server, the order changing from pair to pair. All prompts differ from their first token on.
"""

import argparse
import asyncio
import itertools
import json
import statistics
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from app.bench.gaps import Meeting, Met, meet
from app.bench.machine import describe_machine, spread
from app.bench.replies import connected
from app.bench.texts import words_of
from app.clock import monotonic
from benchmarks.chosen_model import TO_THE_LIMIT, add_model_flags, chosen_model
from benchmarks.servers import Running, mlx_lm, samovar

STREAM_TOKENS = 3000
"""More than there is time for: streams run until they are left."""

FLOWING_PIECES = 8
"""How many pieces each stream has brought before the long prompt comes."""


async def one_round(running: Running, meeting: Meeting, tags: Iterator[str]) -> Met:
    """Some streams, and a long prompt in their midst."""
    async with connected(running.server, monotonic) as connection:
        return await meet(connection, meeting, tags, fields=TO_THE_LIMIT)


def compare(
    servers: tuple[Running, Running], meeting: Meeting, tags: Iterator[str], *, pairs: int
) -> dict[str, Any]:
    """Pairs of rounds, and the ratios ours ÷ theirs of each."""
    ours, theirs = servers
    rounds: dict[str, list[Met]] = {ours.name: [], theirs.name: []}
    for pair in range(pairs):
        for server in (ours, theirs) if pair % 2 else (theirs, ours):
            rounds[server.name].append(asyncio.run(one_round(server, meeting, tags)))
    both = list(zip(rounds[ours.name], rounds[theirs.name], strict=True))
    return {
        "gap_p99_ratio": spread([o.beside.p99_seconds / t.beside.p99_seconds for o, t in both]),
        "gap_max_ratio": spread([o.beside.max_seconds / t.beside.max_seconds for o, t in both]),
        "prefill_ratio": spread([o.prefill_seconds / t.prefill_seconds for o, t in both]),
        "rounds": {name: [asdict(each) for each in measured] for name, measured in rounds.items()},
    }


def words_for(folder: Path, tokens: int) -> int:
    """How many words make a text of about so many tokens of the model."""
    sample = 1000
    encoding = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(words_of("a sample", sample))
    return round(tokens * sample / len(encoding.ids))


def main() -> None:
    """Measure, print the ratios, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add_model_flags(parser)
    parser.add_argument("--streams", type=int, default=2, help="replies that run meanwhile")
    parser.add_argument("--tokens", type=int, default=4000, help="tokens of the long prompt, about")
    parser.add_argument("--pairs", type=int, default=3, help="paired rounds")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/stall.json"))
    options = parser.parse_args()
    model = chosen_model(options)
    folder = str(model.folder)
    tags = map(str, itertools.count(1))
    meeting = Meeting(options.streams, FLOWING_PIECES, words_for(model.folder, options.tokens), STREAM_TOKENS)
    with samovar(folder) as ours, mlx_lm(folder) as theirs:
        result = compare((ours, theirs), meeting, tags, pairs=options.pairs)
    for name, measured in result["rounds"].items():
        p99 = statistics.median(each["beside"]["p99_seconds"] for each in measured)
        prefill = statistics.median(each["prefill_seconds"] for each in measured)
        print(f"{name}: p99 of the gaps {p99:.2f} s, prefill {prefill:.1f} s")
    print({name: result[name] for name in ("gap_p99_ratio", "gap_max_ratio", "prefill_ratio")})
    asked = {"model": model.told} | {name: getattr(options, name) for name in ("streams", "tokens", "pairs")}
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(
        json.dumps({"machine": describe_machine(), "options": asked, "result": result}, indent=1)
    )


if __name__ == "__main__":
    main()
