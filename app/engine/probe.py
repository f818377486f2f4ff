"""Runs a few rows on a model by hand and keeps all that they said, for whoever compares answers.

It uses the decoder that serves, and knows nothing of what the answers should be. Engine thread only.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import mlx.core as mx

from app.engine.decoder import BatchDecoder, BatchLimits
from app.engine.payload import SealedState
from app.scheduler.job import Generated, Job, JobId
from app.scheduler.ports import Sealed
from app.snapshots.entry import Bucket, pack

PROBE_LIMITS = BatchLimits(max_running=2, prefill_batch=2, prefill_step_tokens=16)
"""A small chunk, so that the longer prompt takes two."""

REPLY_TOKENS = 3
"""The first token's logits are the prefill's; those after it, of decode steps on a state that was batched.

Fewer, and where prompts are prefilled one at a time the first reply would have ended before the other begins.
"""

_FLOOR = -100.0
"""Of log-probabilities: a token that is masked out is no farther away than one that is hopeless."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A prompt to run: from nothing, or from a stored state cut back to `use_tokens`."""

    name: str
    tokens: Sequence[int]
    stops: tuple[int, ...] = ()
    start: Sealed[SealedState] | None = None
    use_tokens: int = 0


@dataclass(slots=True)
class Answer:
    """What came of a row: its tokens, the log-probabilities at each, and its state at each stop."""

    tokens: list[int] = field(default_factory=list)
    logprobs: list[mx.array] = field(default_factory=list)
    sealed: list[Sealed[SealedState]] = field(default_factory=list)


def distance(one: Answer, other: Answer) -> float:
    """How far apart two answers to one prompt are: the spread of their logits' difference over their spread.

    0 is the same, about 1 is unrelated. Tokens decide nothing: in low precision, two likely ones may change
    places. Once they differ, what follows answers different prompts and is not compared.
    """
    farthest = 0.0
    for step, (left, right) in enumerate(zip(one.logprobs, other.logprobs, strict=True)):
        apart = cast("float", (mx.std(left - right) / mx.maximum(mx.std(left), 1e-6)).item())
        farthest = max(farthest, apart if math.isfinite(apart) else math.inf)
        if one.tokens[step] != other.tokens[step]:
            break
    return farthest


class ProbeDecoder(BatchDecoder):
    """A decoder that never ends a reply early and listens to every row."""

    def __init__(self, network: Any, *, limits: BatchLimits = PROBE_LIMITS) -> None:
        super().__init__(network, end_tokens=(), limits=limits)
        self._answers: dict[JobId, Answer] = {}

    def _generated(self, reply: Any) -> tuple[JobId, Generated]:
        job, generated = super()._generated(reply)
        answer = self._answers[job]
        answer.tokens.append(generated.token)
        answer.logprobs.append(mx.maximum(reply.logprobs.astype(mx.float32), _FLOOR))
        return job, generated

    def run(self, *rows: Row) -> dict[str, Answer]:
        """Run rows together to their ends; what each said, by its name.

        Raises:
            UnsupportedCacheError: a stop asks for a state that cannot be sealed.
            RestoreError: a row's state cannot be cut back as it asks.
        """
        if self._rows:
            # The run before this one raised, and left its rows in the batch.
            self.rebuild()
        self._answers = {JobId(row.name): Answer() for row in rows}
        for row in rows:
            start, state = 0, None
            if row.start is not None:
                start = row.use_tokens or row.start.payload.n_tokens
                state = self.restore(row.start.payload, start)
            self.admit(_job(row), start=start, state=state, stops=row.stops)
        left = set(self._answers)
        while left:
            output = self.step()
            for job in output.segment_ends:
                self._answers[job].sealed.append(self.seal(job))
            for job, generated in output.generated:
                if generated.finish is not None:
                    self.release(job)
                    left.discard(job)
        return {str(job): answer for job, answer in self._answers.items()}


def _job(row: Row) -> Job:
    return Job(
        id=JobId(row.name),
        tokens=tuple(row.tokens),
        packed=pack(row.tokens),
        boundaries=(),
        bucket=Bucket(model="", cache_signature=""),
        session="",
        max_tokens=REPLY_TOKENS,
    )
