"""A chat and a tool loop, turn by turn, on models whose state is used whole: Samovar beside mlx_lm.server.

`python -m benchmarks.turns_bench [--turns N] [--think-seconds S] [--json FILE]`

What counts is how many prompt tokens a turn computes, and how long its first token takes. Random models of
mlx-lm's own classes, larger than those of the tests, with one token a byte: about 4 tokens a word. In the
loop each is made to call a tool in every step, and the client sends back the call as it got it.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx

from benchmarks.machine import describe_machine
from benchmarks.serving_bench import WORDS, Server, free_port, running
from tests.support.families import FAMILIES
from tests.support.scripted_model import make_scripted_model
from tests.support.templates import HERMES

HYBRID, SLIDING = "lfm2", "gemma3_text"
END_OF_TURN = 257
LARGER = 4
TOOL: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "What is to be seen at a place.",
        "parameters": {"type": "object", "properties": {"at": {"type": "string"}}},
    },
}


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


@dataclass(frozen=True)
class Shape:
    """A kind of conversation: what stands before it, what the client says in each turn, and its tools."""

    system: Mapping[str, Any]
    turns: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]] = ()


def chat(turns: int) -> Shape:
    """Questions under a system prompt."""
    return Shape(
        {"role": "system", "content": words(0, 120)},
        [{"role": "user", "content": f"Turn {turn}: {words(turn, 30)}"} for turn in range(turns)],
    )


def tool_loop(steps: int) -> Shape:
    """An agent's steps: one question, then what the tool said to each call."""
    results = [
        {"role": "tool", "content": f"{words(step + 70, 40)}. Step {step}."} for step in range(steps - 1)
    ]
    return Shape(
        {"role": "system", "content": words(1, 120)},
        [{"role": "user", "content": words(2, 30)}, *results],
        (TOOL,),
    )


def lines(loop: Shape) -> list[tuple[Sequence[Mapping[str, Any]], str]]:
    """What the model says in each step of the loop: a call of its own."""
    return [
        (
            (message,),
            f'<tool_call>\n{{"name": "look", "arguments": {{"at": "{words(step + 9, 4)}"}}}}\n</tool_call>',
        )
        for step, message in enumerate(loop.turns)
    ]


async def ask(
    client: httpx.AsyncClient, server: Server, messages: Sequence[Mapping[str, Any]], shape: Shape, key: str
) -> tuple[Turn, dict[str, Any]]:
    """One streamed turn, and its message as a client sends it back."""
    body = {
        "model": server.model,
        "messages": messages,
        "max_tokens": 160 if shape.tools else 64,
        "temperature": 0,
        "prompt_cache_key": key,
        "stream": True,
        "stream_options": {"include_usage": True},
        # A chat's replies go to their limit; a call ends where it ends.
        **({"tools": shape.tools} if shape.tools else {"logit_bias": {str(END_OF_TURN): -100}}),
    }
    began, first, usage, text = time.perf_counter(), 0.0, None, ""
    calls: list[dict[str, Any]] = []
    async with client.stream("POST", f"{server.url}/v1/chat/completions", json=body) as answer:
        answer.raise_for_status()
        async for line in answer.aiter_lines():
            if line.startswith("data: {"):
                frame = json.loads(line[6:])
                usage = frame.get("usage") or usage
                delta = frame["choices"][0]["delta"] if frame["choices"] else {}
                said, called = delta.get("content") or "", delta.get("tool_calls") or []
                text += said
                calls += called
                first = first or (time.perf_counter() - began if said or called else 0.0)
    assert usage is not None
    assert bool(calls) is bool(shape.tools), f"{server.name} made {len(calls)} calls, and said {text!r}"
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    # A random model may say nothing printable in so few tokens; the end is an upper bound then.
    turn = Turn(usage["prompt_tokens"], cached, first or time.perf_counter() - began)
    echo = {"role": "assistant", "content": text}
    return turn, {**echo, "tool_calls": calls} if calls else echo


async def talk(server: Server, shape: Shape, key: str, think: float) -> list[Turn]:
    """A whole conversation, with the time a person takes between its turns."""
    messages: list[Mapping[str, Any]] = [shape.system]
    turns: list[Turn] = []
    async with httpx.AsyncClient(timeout=600) as client:
        for message in shape.turns:
            answered = (
                {"tool_call_id": messages[-1]["tool_calls"][0]["id"]} if message["role"] == "tool" else {}
            )
            messages.append({**message, **answered})
            turn, reply = await ask(client, server, messages, shape, key)
            turns.append(turn)
            messages.append(reply)
            await asyncio.sleep(think)
    return turns


def larger_model(folder: Path, family: str, loop: Shape) -> Path:
    """A random model large enough for its prefill to take noticeable time; it plays its part of the loop."""
    sizes = ("hidden_size", "intermediate_size", "block_dim", "block_ff_dim")
    larger = {key: LARGER * FAMILIES[family][key] for key in sizes if key in FAMILIES[family]}
    return make_scripted_model(folder, family, lines(loop), chat_template=HERMES, changes=larger)


def compare(family: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Both servers on one model, both shapes of conversation."""
    shapes = {"chat": chat(options.turns), "tool loop": tool_loop(options.turns)}
    model = str(larger_model(folder / family, family, shapes["tool loop"]))
    ours, theirs = free_port(), free_port()
    # The model brings the code that makes it call tools.
    trusted = ["--model", model, "--trust-remote-code"]
    samovar = [sys.executable, "-m", "app", "serve", "--port", str(ours), *trusted, "--alias", model]
    mlx_lm = [sys.executable, "-m", "mlx_lm", "server", "--port", str(theirs), *trusted]
    with running("samovar", samovar, ours, model) as a, running("mlx_lm.server", mlx_lm, theirs, model) as b:
        return {
            name: {
                server.name: [
                    asdict(turn) | {"computed_tokens": turn.computed_tokens}
                    for turn in asyncio.run(talk(server, shape, name, options.think_seconds))
                ]
                for server in (a, b)
            }
            for name, shape in shapes.items()
        }


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
