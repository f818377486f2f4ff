"""A chat and a tool loop, turn by turn, on models whose state is used whole: Samovar beside mlx_lm.server.

`python -m benchmarks.turns_bench [--turns N] [--think-seconds S] [--json FILE]`

What counts is how many prompt tokens a turn computes, and how long its first token takes. Random models of
mlx-lm's own classes, larger than those of the tests, with one token a byte: about 4 tokens a word.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx

from benchmarks.machine import describe_machine
from benchmarks.serving_bench import WORDS, Server, free_port, running
from tests.support.families import FAMILIES
from tests.support.tiny import make_tiny_model

HYBRID, SLIDING = "lfm2", "gemma3_text"
END_OF_TURN = 257
LARGER = 4
REPLY = "what the server answered"
"""Stands for the reply of that turn, which the client sends back as it got it."""

TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + (m.content or '') }}"
    "{% for c in m.tool_calls or [] %}"
    "{{ '<call>' + c.function.name + ' ' + (c.function.arguments | tojson) }}{% endfor %}"
    "{{ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


@dataclass(frozen=True)
class Turn:
    """One answered turn."""

    prompt_tokens: int
    cached_tokens: int
    first_token_seconds: float

    @property
    def computed_tokens(self) -> int:
        """What was not in a cache."""
        return self.prompt_tokens - self.cached_tokens


def words(number: int, count: int) -> str:
    """Text that depends on its number."""
    return " ".join(WORDS[(number * 3 + i * i) % len(WORDS)] for i in range(count))


def chat(turns: int) -> Iterator[list[dict[str, Any]]]:
    """The messages of each turn: a system prompt, then questions and answers."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": words(0, 120)}]
    for turn in range(turns):
        messages.append({"role": "user", "content": f"Turn {turn}: {words(turn, 30)}"})
        yield list(messages)
        messages.append({"role": "assistant", "content": REPLY})


def tool_loop(steps: int) -> Iterator[list[dict[str, Any]]]:
    """The messages of each step of an agent: one question, then calls and results, the last role `tool`."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": words(1, 120)},
        {"role": "user", "content": words(2, 30)},
    ]
    for step in range(steps):
        yield list(messages)
        call = {"name": "look", "arguments": json.dumps({"at": words(step + 9, 4)})}
        messages.append(
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": f"c{step}", "type": "function", "function": call}],
            }
        )
        messages.append({"role": "tool", "tool_call_id": f"c{step}", "content": words(step + 70, 40)})


async def ask(
    client: httpx.AsyncClient, server: Server, messages: list[dict[str, Any]], key: str
) -> tuple[Turn, str]:
    """One streamed turn, and its text."""
    body = {
        "model": server.model,
        "messages": messages,
        "max_tokens": 64,
        "temperature": 0,
        "logit_bias": {str(END_OF_TURN): -100},
        "prompt_cache_key": key,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    began, first, usage, text = time.perf_counter(), 0.0, None, ""
    async with client.stream("POST", f"{server.url}/v1/chat/completions", json=body) as answer:
        answer.raise_for_status()
        async for line in answer.aiter_lines():
            if line.startswith("data: {"):
                frame = json.loads(line[6:])
                usage = frame.get("usage") or usage
                said = frame["choices"][0]["delta"].get("content") if frame["choices"] else None
                text += said or ""
                first = first or (time.perf_counter() - began if said else 0.0)
    assert usage is not None
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    # A random model may say nothing printable in so few tokens; the end is an upper bound then.
    return Turn(usage["prompt_tokens"], cached, first or time.perf_counter() - began), text


async def talk(server: Server, prompts: Iterator[list[dict[str, Any]]], key: str, think: float) -> list[Turn]:
    """A whole conversation, with the time a person takes between its turns."""
    async with httpx.AsyncClient(timeout=600) as client:
        turns: list[Turn] = []
        replies: list[str] = []
        for messages in prompts:
            told = iter(replies)
            echoed = [{**m, "content": next(told)} if m["content"] == REPLY else m for m in messages]
            turn, reply = await ask(client, server, echoed, key)
            turns.append(turn)
            replies.append(reply)
            await asyncio.sleep(think)
        return turns


def larger_model(folder: Path, family: str) -> Path:
    """A random model large enough for its prefill to take noticeable time."""
    sizes = ("hidden_size", "intermediate_size", "block_dim", "block_ff_dim")
    larger = {key: LARGER * FAMILIES[family][key] for key in sizes if key in FAMILIES[family]}
    return make_tiny_model(folder, family, chat_template=TEMPLATE, changes=larger)


def compare(family: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Both servers on one model, both shapes of conversation."""
    model = str(larger_model(folder / family, family))
    ours, theirs = free_port(), free_port()
    samovar = [sys.executable, "-m", "app", "serve", "--port", str(ours), "--model", model, "--alias", model]
    mlx_lm = [sys.executable, "-m", "mlx_lm", "server", "--port", str(theirs), "--model", model]
    results: dict[str, Any] = {}
    with running("samovar", samovar, ours, model) as a, running("mlx_lm.server", mlx_lm, theirs, model) as b:
        for shape, prompts in (("chat", chat), ("tool loop", tool_loop)):
            results[shape] = {
                server.name: [
                    asdict(turn) | {"computed_tokens": turn.computed_tokens}
                    for turn in asyncio.run(
                        talk(server, prompts(options.turns), shape, options.think_seconds)
                    )
                ]
                for server in (a, b)
            }
    return results


def main() -> None:
    """Measure, print the ratios, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--turns", type=int, default=10, help="turns of the chat, steps of the loop")
    parser.add_argument("--think-seconds", type=float, default=1.0, help="pause between two turns")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/turns.json"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = {family: compare(family, Path(folder), options) for family in (HYBRID, SLIDING)}
    for family, shapes in results.items():
        for shape, servers in shapes.items():
            later = {name: turns[1:] for name, turns in servers.items()}
            computed = {name: sum(t["computed_tokens"] for t in turns) for name, turns in later.items()}
            first = {
                name: statistics.median(t["first_token_seconds"] for t in turns)
                for name, turns in later.items()
            }
            print(
                f"{family:12s} {shape:10s} tokens computed after the first turn: {computed['samovar']} and "
                f"{computed['mlx_lm.server']}, ratio {computed['samovar'] / computed['mlx_lm.server']:.3f}; "
                f"time to first token, ratio {first['samovar'] / first['mlx_lm.server']:.2f}"
            )
    options.json.write_text(
        json.dumps(
            {"machine": describe_machine(), "turns": options.turns, "results": results},
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
