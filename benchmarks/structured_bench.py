"""What holding replies to a JSON schema costs: tokens a second of held replies beside free ones, in one run.

`python -m benchmarks.structured_bench [--model FOLDER] [--rows 1,4,8] [--pairs N] [--tokens N] [--json FILE]`

Each pair is one round of either kind on one decoder, the order changing from pair to pair; a result is the
median of the pairs' ratios. A held reply never comes to its end, so that both kinds make the same number of
tokens from the same prompts. Masks alone are timed apart, to say what of a step they are.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.bench.machine import describe_machine, spread
from app.chat import ChatPrompt, PreparedPrompt, ReplySchema
from app.engine.batch_limits import BatchLimits
from app.engine.chat_model import ServedChatModel
from app.engine.decoder import BatchDecoder
from app.engine.loader import LoadedModel, ModelSource, load_model
from app.scheduler.job import Constraint, Job, JobId, Sampling
from benchmarks.demo import demo_folder

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "towns": {
            "type": "array",
            # More than there are tokens for.
            "minItems": 1000,
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "kind": {"enum": ["village", "town", "city"]},
                    "people": {"type": "integer", "minimum": 0},
                    "rivers": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
                    "twin": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                },
                "required": ["name", "kind", "people", "rivers", "twin"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["towns"],
    "additionalProperties": False,
}


class Bench:
    """One model, one decoder, and replies of both kinds.

    Args:
        loaded: the model.
        rows: how many replies run at once, at most.
        tokens: of each reply.
    """

    def __init__(self, loaded: LoadedModel, *, rows: int, tokens: int) -> None:
        self._tokens = tokens
        limits = BatchLimits(max_running=rows, prefill_batch=rows, prefill_step_tokens=512)
        self._ends = sorted(loaded.tokenizer.eos_token_ids)
        self._decoder = BatchDecoder(loaded.network, end_tokens=self._ends, limits=limits)
        self._model = ServedChatModel(loaded, unix_seconds=time.time, on_declined=lambda _: None)

    def held(self) -> tuple[Constraint, float]:
        """What replies are held to, and the seconds that compiling it took."""
        chat, prompt = self._prompt(0)
        began = time.perf_counter()
        made = self._model.constraint(chat, prompt, schema=ReplySchema(SCHEMA, "schema"), tools=None)
        assert made is not None
        return made, time.perf_counter() - began

    def tokens_per_second(self, rows: int, constraint: Constraint | None) -> tuple[float, list[int]]:
        """Of all rows together, once each has its first token; and the last row's tokens."""
        jobs = [self._job(row, constraint) for row in range(rows)]
        for job in jobs:
            self._decoder.admit(job, start=0, state=None, stops=[])
        made = {job.id: list[int]() for job in jobs}
        began, before = 0.0, 0
        while any(len(tokens) < self._tokens for tokens in made.values()):
            output = self._decoder.step()
            assert not output.failed, output.failed
            for job_id, generated in output.generated:
                made[job_id].append(generated.token)
            if not began and all(made.values()):
                began = time.perf_counter()
                before = sum(map(len, made.values()))
        seconds = time.perf_counter() - began
        for job in jobs:
            self._decoder.release(job.id)
        return (sum(map(len, made.values())) - before) / seconds, made[jobs[-1].id]

    def mask_seconds(self, constraint: Constraint, tokens: list[int]) -> float:
        """What finding the masks of a reply takes the processor, a token."""
        walk = constraint.begin()
        began = time.perf_counter()
        for token in tokens:
            walk.allowed()
            walk.take(token)
        return (time.perf_counter() - began) / len(tokens)

    def _prompt(self, row: int) -> tuple[ChatPrompt, PreparedPrompt]:
        asked = f"List the towns of region {row} as JSON, with people and rivers."
        chat = ChatPrompt(messages=({"role": "user", "content": asked},), template_kwargs={})
        return chat, self._model.prepare(chat, session="bench", tenant="")

    def _job(self, row: int, constraint: Constraint | None) -> Job:
        _, prompt = self._prompt(row)
        # Free replies would end sooner than held ones otherwise.
        never = tuple((token, -100.0) for token in self._ends)
        return Job(
            id=JobId(str(row)),
            tokens=prompt.tokens,
            packed=prompt.packed,
            boundaries=(),
            bucket=prompt.bucket,
            session="bench",
            max_tokens=self._tokens,
            sampling=Sampling(logit_bias=never),
            constraint=constraint,
        )


def compare(bench: Bench, constraint: Constraint, rows: int, pairs: int) -> dict[str, Any]:
    """Pairs of rounds, and the ratios held ÷ free of each."""
    speeds: dict[str, list[float]] = {"held": [], "free": []}
    said: list[int] = []
    for pair in range(pairs + 1):
        for kind in ("held", "free") if pair % 2 else ("free", "held"):
            speed, tokens = bench.tokens_per_second(rows, constraint if kind == "held" else None)
            said = tokens if kind == "held" else said
            if pair:  # the first pair warms both up
                speeds[kind].append(speed)
    ratios = [held / free for held, free in zip(speeds["held"], speeds["free"], strict=True)]
    # Of one step, as all rows' masks are found in it.
    share = bench.mask_seconds(constraint, said) * sum(speeds["free"]) / pairs
    return {"rows": rows, "throughput_ratio": spread(ratios), "mask_share": share, "rounds": speeds}


def main() -> None:
    """Measure, print a table of ratios, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", type=Path, help="model folder; the demo model without it")
    parser.add_argument("--rows", default="1,4,8", help="numbers of replies at a time")
    parser.add_argument("--pairs", type=int, default=6, help="paired rounds for each number of replies")
    parser.add_argument("--tokens", type=int, default=64, help="tokens of each reply")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/structured.json"))
    options = parser.parse_args()
    numbers = [int(rows) for rows in options.rows.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        loaded = load_model(
            ModelSource(path=str(options.model or demo_folder())),
            cache_folder=Path(folder),
            progress=lambda _what, _done, _total: None,
        )
        bench = Bench(loaded, rows=max(numbers), tokens=options.tokens)
        constraint, compile_seconds = bench.held()
        results = [compare(bench, constraint, rows, options.pairs) for rows in numbers]
    print("replies   tokens/s, held ÷ free     masks, of a free step")
    for result in results:
        speed = result["throughput_ratio"]
        print(
            f"{result['rows']:7d}   {speed['median']:.3f}  ({speed['min']:.2f} to {speed['max']:.2f})"
            f"       {result['mask_share']:.2%}"
        )
    asked = {name: getattr(options, name) for name in ("pairs", "tokens")}
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(
        json.dumps(
            {
                "machine": describe_machine(),
                "options": asked,
                "vocabulary": len(loaded.tokenizer),
                "compile_seconds": compile_seconds,
                "results": results,
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
