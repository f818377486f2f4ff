"""Samovar beside llama.cpp: the same model, machine, requests and client, in turn in one run.

`python -m benchmarks.peer_bench [--clients 1,4,8] [--pairs N] [--json FILE]`

The weights are one GGUF file: llama.cpp runs them as they lie there, in 4 bits; ours is the same model made
dense, in float32, which MLX's CPU backend computes with. Speed is compared as it is; what is computed of
prompts is compared over budgets that hold equally many tokens, each in the number type of its own state.
"""

import argparse
import asyncio
import itertools
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from app.bench.machine import describe_machine, spread
from app.bench.replies import connected
from app.bench.talk import Turn, talk
from app.bench.texts import follow_ups, question, words_of
from app.clock import monotonic
from benchmarks.chosen_model import TO_THE_LIMIT
from benchmarks.demo import demo_folder, demo_gguf
from benchmarks.interleaved import Talks, interleave, reuse_of
from benchmarks.peers import llama_cpp, peer_version
from benchmarks.servers import LLAMA_CPP, SAMOVAR, Running, samovar
from benchmarks.serving_bench import compare, load_of

OUR_TOKEN_BYTES = 2 * 30 * 3 * 64 * 4
THEIR_TOKEN_BYTES = OUR_TOKEN_BYTES // 2
"""Keys and values of 30 layers with 3 heads of 64 numbers: ours in float32, theirs in float16."""

CONTEXT_TOKENS = 4096
TALK_TOKENS = 16


def llama(options: argparse.Namespace, *, slots: int, cache_mib: int) -> AbstractContextManager[Running]:
    """Theirs, with so many slots and so much memory for the prompts of others."""
    return llama_cpp(
        demo_gguf(),
        slots=slots,
        context_tokens=CONTEXT_TOKENS,
        cache_mib=cache_mib,
        threads=options.threads,
    )


def chats(
    servers: tuple[Running, Running], tags: Iterator[str], options: argparse.Namespace
) -> dict[str, Any]:
    """Conversations on either server in pairs; seconds to the first token of each turn, and their ratios."""
    ours, theirs = servers
    said: dict[str, list[Sequence[Turn]]] = {ours.name: [], theirs.name: []}
    for pair in range(options.pairs):
        for running in (ours, theirs) if pair % 2 else (theirs, ours):
            said[running.name].append(asyncio.run(_chat(running, next(tags), options)))
    turns = []
    for number in range(options.turns):
        each = {name: [chat[number] for chat in talks] for name, talks in said.items()}
        both = zip(each[ours.name], each[theirs.name], strict=True)
        turns.append(
            {
                "turn": number + 1,
                "first_token_ratio": spread([o.first_token_seconds / t.first_token_seconds for o, t in both]),
                "servers": {name: [asdict(turn) for turn in measured] for name, measured in each.items()},
            }
        )
    return {"turns": turns}


async def _chat(running: Running, tag: str, options: argparse.Namespace) -> list[Turn]:
    async with connected(running.server, monotonic) as connection:
        return await talk(
            connection,
            question(tag, options.words),
            follow_ups(tag, options.turns, options.words),
            max_tokens=options.max_tokens,
            think_seconds=0,
            fields={"prompt_cache_key": tag, **TO_THE_LIMIT},
        )


def speed(options: argparse.Namespace) -> dict[str, Any]:
    """Rounds by number of clients, and conversations."""
    tags = map(str, itertools.count(1))
    most = max(map(int, options.clients.split(",")))
    folder = str(demo_folder())
    with (
        samovar(folder) as ours,
        llama(options, slots=most, cache_mib=1024) as theirs,
    ):
        return {
            "clients": [
                compare(
                    (ours, theirs), load_of(clients, options), tags, pairs=options.pairs, fields=TO_THE_LIMIT
                )
                for clients in options.clients.split(",")
            ],
            "chat": chats((ours, theirs), tags, options),
        }


def talks_of(conversations: int, turns: int, words: int) -> Talks:
    """What is said in each of the conversations that share a budget."""
    return [
        [
            {"role": "user", "content": f"{talk}.{turn}: {words_of(f'{talk} {turn}', words)}"}
            for turn in range(turns)
        ]
        for talk in range(conversations)
    ]


def budgets(options: argparse.Namespace) -> list[dict[str, Any]]:
    """What both compute of all prompts, with room for so many whole conversations.

    Theirs keeps one of them in the slot in which it computes, beside its cache; ours keeps all in the store.
    """
    talks = talks_of(options.conversations, options.talk_turns, options.words)
    folder = str(demo_folder())
    with samovar(folder) as running:
        ((*_, last),) = asyncio.run(_all_talks(running, talks[:1]))
    whole = last.prompt_tokens + TALK_TOKENS
    results = []
    for share in map(float, options.shares.split(",")):
        conversations = share * options.conversations
        tokens = round(conversations * whole)
        cached = max(tokens - whole, 0) * THEIR_TOKEN_BYTES
        starts = (
            partial(samovar, folder, "--snapshot-capacity-bytes", str(tokens * OUR_TOKEN_BYTES)),
            partial(llama, options, slots=1, cache_mib=round(cached / 2**20)),
        )
        found = {}
        for start in starts:
            with start() as running:
                found[running.name] = asdict(reuse_of(asyncio.run(_all_talks(running, talks))))
        results.append({"conversations": conversations, "tokens": tokens, "servers": found})
    return results


async def _all_talks(running: Running, talks: Talks) -> list[list[Turn]]:
    async def between(_replies: int) -> None:
        """A dense model leaves nothing to prepare."""

    return await interleave(running, talks, max_tokens=TALK_TOKENS, fields=TO_THE_LIMIT, between=between)


def main() -> None:
    """Measure, print tables, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--clients", default="1,4,8", help="numbers of clients at a time")
    parser.add_argument("--pairs", type=int, default=3, help="paired rounds, and pairs of conversations")
    parser.add_argument("--requests", type=int, default=1, help="requests of each client in a round")
    parser.add_argument("--max-tokens", type=int, default=32, help="tokens of each reply")
    parser.add_argument("--words", type=int, default=60, help="words of each message")
    parser.add_argument("--turns", type=int, default=10, help="turns of a conversation")
    parser.add_argument("--conversations", type=int, default=4, help="that share a budget")
    parser.add_argument("--talk-turns", type=int, default=4, help="turns of each of those")
    parser.add_argument("--shares", default="0.5,1,1.5", help="budgets, in whole conversations")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of llama.cpp")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/peer.json"))
    options = parser.parse_args()
    measured = {**speed(options), "budgets": budgets(options)}
    for row in measured["clients"]:
        print(
            f"{row['clients']} clients: tokens/s, ours ÷ llama.cpp {row['throughput_ratio']},"
            f" first token {row['first_token_ratio']}"
        )
    for turn in measured["chat"]["turns"]:
        print(f"turn {turn['turn']}: first token, ours ÷ llama.cpp {turn['first_token_ratio']}")
    for row in measured["budgets"]:
        print(f"room for {row['conversations']:g} of {options.conversations}: {row['servers']}")
    names = ("threads", "pairs", "requests", "max_tokens", "words", "turns", "conversations", "talk_turns")
    asked = {name: getattr(options, name) for name in names}
    options.json.write_text(
        json.dumps(
            {
                "machine": describe_machine(),
                "peer": f"xllamacpp {peer_version()}",
                "weights_bytes": {
                    SAMOVAR: sum(file.stat().st_size for file in demo_folder().glob("*.safetensors")),
                    LLAMA_CPP: demo_gguf().stat().st_size,
                },
                "options": asked,
                **measured,
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
