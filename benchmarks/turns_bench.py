"""A chat and tool loops, turn by turn, on models whose state is used whole: Samovar beside mlx_lm.server.

`python -m benchmarks.turns_bench [--turns N] [--think-seconds S] [--json FILE]`

What counts is how many prompt tokens a turn computes, and how long its first token takes. Random models of
mlx-lm's own classes, larger than those of the tests, with one token a byte: about 4 tokens a word. In a
loop each is made to call a tool in every step, and the client sends back the call as it got it; what a model
thinks before the call it does not send back, as most clients do not. Several loops at once are agents of one
system prompt, each with a task of its own; what either server keeps of them is what it keeps by default.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from app.bench.machine import describe_machine
from app.bench.replies import connected
from app.bench.talk import Turn, take_turn
from app.bench.texts import Message, words_of
from app.clock import monotonic
from benchmarks.servers import Running, mlx_lm, samovar
from tests.support.families import FAMILIES
from tests.support.scripted_model import make_scripted_model
from tests.support.templates import HERMES, THINKING_CALLS

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
class Shape:
    """A kind of conversation: what stands before it, what the client says in each turn, and its tools."""

    system: Mapping[str, Any]
    turns: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]] = ()
    thinks: bool = False


def chat(turns: int) -> Shape:
    """Questions under a system prompt."""
    return Shape(
        {"role": "system", "content": words_of("system of a chat", 120)},
        [
            {"role": "user", "content": f"Turn {turn}: " + words_of(f"turn {turn}", 30)}
            for turn in range(turns)
        ],
    )


def tool_loop(steps: int, *, agent: str = "", thinks: bool = False) -> Shape:
    """An agent's steps: one question, then what the tool said to each call; no two agents' are alike."""
    results = [
        {"role": "tool", "content": words_of(f"result {step}{agent}", 40) + f". Step {step}{agent}."}
        for step in range(steps - 1)
    ]
    return Shape(
        {"role": "system", "content": words_of("system of a loop", 120)},
        [{"role": "user", "content": words_of(f"question{agent}", 30)}, *results],
        (TOOL,),
        thinks,
    )


def lines(loops: Sequence[Shape]) -> list[tuple[Sequence[Mapping[str, Any]], str]]:
    """What the model says in each step of each loop: a call of its own, and what it thinks before."""
    said: list[tuple[Sequence[Mapping[str, Any]], str]] = []
    for loop in loops:
        for step, message in enumerate(loop.turns):
            thought = f"<think>\n{words_of(f'thought {step}', 20)}\n</think>\n\n" if loop.thinks else ""
            call = json.dumps({"name": "look", "arguments": {"at": words_of(f"place {step}", 4)}})
            said.append(((message,), f"{thought}<tool_call>\n{call}\n</tool_call>"))
    return said


async def talk(running: Running, shape: Shape, key: str, think: float) -> list[Turn]:
    """A whole conversation, with the time a person takes between its turns."""
    messages: list[Message] = [dict(shape.system)]
    turns: list[Turn] = []
    fields: dict[str, Any] = {
        "prompt_cache_key": key,
        # A chat's replies go to their limit; a call ends where it ends.
        **({"tools": shape.tools} if shape.tools else {"logit_bias": {str(END_OF_TURN): -100}}),
    }
    async with connected(running.server, monotonic) as connection:
        for message in shape.turns:
            messages.append({**message, **_answered(message, messages[-1])})
            turn, reply = await take_turn(
                connection, messages, max_tokens=320 if shape.tools else 64, fields=fields
            )
            assert ("tool_calls" in reply) is bool(shape.tools), f"{running.name} said {reply}"
            turns.append(turn)
            messages.append(reply)
            await asyncio.sleep(think)
    return turns


def _answered(message: Mapping[str, Any], last: Mapping[str, Any]) -> dict[str, Any]:
    """What a tool's message says besides: which call it answers."""
    return {"tool_call_id": last["tool_calls"][0]["id"]} if message["role"] == "tool" else {}


async def at_once(running: Running, shapes: Sequence[Shape], name: str, think: float) -> list[list[Turn]]:
    """Conversations side by side, each on a connection of its own."""
    return await asyncio.gather(
        *(talk(running, shape, f"{name} {number}", think) for number, shape in enumerate(shapes))
    )


def larger_model(folder: Path, family: str, loops: Sequence[Shape]) -> Path:
    """A random model large enough for its prefill to take noticeable time; it plays its part of the loops."""
    sizes = ("hidden_size", "intermediate_size", "block_dim", "block_ff_dim")
    larger = {key: LARGER * FAMILIES[family][key] for key in sizes if key in FAMILIES[family]}
    thinks = any(loop.thinks for loop in loops)
    template, marks = (THINKING_CALLS, ("<think>", "</think>")) if thinks else (HERMES, ())
    return make_scripted_model(
        folder, family, lines(loops), chat_template=template, more_tokens=marks, changes=larger
    )


def compare(family: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Both servers on models that call, for one agent and for several, and on one that thinks first."""
    loop, thinking = tool_loop(options.turns), tool_loop(options.turns, thinks=True)
    agents = [tool_loop(options.turns, agent=f" of agent {number}") for number in range(options.agents)]
    alone = {"chat": [chat(options.turns)], "tool loop": [loop]}
    return (
        beside(folder / "calls", family, alone, options)
        | beside(folder / "thinks", family, {"thinking tool loop": [thinking]}, options)
        | beside(folder / "agents", family, {f"{options.agents} tool loops at once": agents}, options)
    )


def beside(
    folder: Path, family: str, kinds: Mapping[str, Sequence[Shape]], options: argparse.Namespace
) -> dict[str, Any]:
    """Both servers on one model, which plays its part of the last kind of these conversations."""
    *_, loops = kinds.values()
    model = str(larger_model(folder / family, family, loops))
    # The model brings the code that makes it call tools.
    trusted = "--trust-remote-code"
    with samovar(model, trusted) as ours, mlx_lm(model, trusted) as theirs:
        return {
            name: {
                server.name: [
                    [asdict(turn) | {"computed_tokens": turn.computed_tokens} for turn in turns]
                    for turns in asyncio.run(at_once(server, shapes, name, options.think_seconds))
                ]
                for server in (ours, theirs)
            }
            for name, shapes in kinds.items()
        }


def main() -> None:
    """Measure, print the ratios, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--turns", type=int, default=10, help="turns of the chat, steps of the loop")
    parser.add_argument("--agents", type=int, default=6, help="loops that run at once")
    parser.add_argument("--think-seconds", type=float, default=1.0, help="pause between two turns")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/turns.json"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = {family: compare(family, Path(folder), options) for family in (HYBRID, SLIDING)}
    for family, shapes in results.items():
        for shape, servers in shapes.items():
            later = {name: [turn for turns in talks for turn in turns[1:]] for name, talks in servers.items()}
            computed = {name: sum(t["computed_tokens"] for t in turns) for name, turns in later.items()}
            first = {
                name: statistics.median(t["first_token_seconds"] for t in turns)
                for name, turns in later.items()
            }
            print(
                f"{family:12s} {shape:18s} tokens computed after the first turn: {computed['samovar']} and "
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
