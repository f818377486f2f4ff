"""Runs a few rows on a model by hand and keeps all that they said, for whoever compares answers.

It uses the decoder that serves, and knows nothing of what the answers should be. Engine thread only.
"""

import math
from dataclasses import dataclass, field
from typing import Any, cast

import mlx.core as mx

from app.engine.batch_limits import BatchLimits
from app.engine.decoder import BatchDecoder
from app.engine.payload import SealedState
from app.scheduler.job import Generated, Job, JobId
from app.scheduler.ports import Sealed
from app.snapshots.entry import Bucket, pack
from app.vocabulary import FinishReason

PROBE_LIMITS = BatchLimits(max_running=2, prefill_batch=2, prefill_step_tokens=16)
"""A small chunk, so that the longer prompt takes two."""

TOLERANCE = 0.2
"""The largest `distance` that is taken for rounding. Measured on shrunk models: a segmented prefill against a
whole one is 0.0000 apart in float32 (26 families) and at most 0.02 in bfloat16 (the 15 that the CPU can run
in it); a state that took in padding is 0.78 to 1.59 away, unrelated prompts 1.14 to 1.58. An error as small
as rounding passes: recurrent_gemma's 0.013 beside a restored row does, and only its padding gives it away."""

REPLY_TOKENS = 3
"""The first token's logits are the prefill's; those after it, of decode steps on a state that was batched.

Fewer, and where prompts are prefilled one at a time the first reply would have ended before the other begins.
"""

_FLOOR = -100.0
"""Of log-probabilities: a token that is masked out is no farther away than one that is hopeless."""


_NEAR_TOKENS = 15
"""Few beyond the boundary: what a state has lost shows most in what comes right after it."""

_LONG_TOKENS = 23
"""Leaves the long prompt 11 tokens to go: restored, it is still longer than the short one and pads it."""

_SHORT_TOKENS = 9
_BOUNDARY = 12
_CUT = 4
"""How much of its beginning the short prompt has from the long one, whose state is cut back to that."""


@dataclass(frozen=True, slots=True)
class Prompts:
    """Prompts of unequal length that begin with the same `cut` tokens.

    `boundary`: where in `near` and `long`, which begin with it, the state is taken.
    """

    near: tuple[int, ...]
    long: tuple[int, ...]
    short: tuple[int, ...]
    boundary: int = _BOUNDARY
    cut: int = _CUT


def prompts_below(vocabulary_size: int) -> Prompts:
    """Any tokens do, as long as no two neighbourhoods are alike; all are ids below `vocabulary_size`."""
    long = tuple((7 * i + i * i) % vocabulary_size for i in range(_LONG_TOKENS))
    others = tuple((11 * i + 3) % vocabulary_size for i in range(_SHORT_TOKENS - _CUT))
    return Prompts(long[:_NEAR_TOKENS], long, long[:_CUT] + others)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A prompt to run: from nothing, or from a stored state cut back to `use_tokens`."""

    name: str
    tokens: tuple[int, ...]
    stops: tuple[int, ...] = ()
    start: Sealed[SealedState] | None = None
    use_tokens: int = 0
    reply_tokens: int = REPLY_TOKENS


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


def close(one: Answer, other: Answer) -> bool:
    """Whether two answers to one prompt differ by no more than rounding."""
    return distance(one, other) <= TOLERANCE


def floored(logprobs: mx.array) -> mx.array:
    """Log-probabilities as answers keep them."""
    return mx.maximum(logprobs.astype(mx.float32), _FLOOR)


class ProbeDecoder(BatchDecoder):
    """A decoder that never ends a reply early and listens to every row."""

    def __init__(self, network: Any, *, limits: BatchLimits = PROBE_LIMITS) -> None:
        super().__init__(network, end_tokens=(), limits=limits)
        self._answers: dict[JobId, Answer] = {}

    def _generated(
        self, row: Any, token: int, logprobs: mx.array, finish: FinishReason | None
    ) -> tuple[JobId, Generated]:
        job, generated = super()._generated(row, token, logprobs, finish)
        answer = self._answers[job]
        answer.tokens.append(token)
        answer.logprobs.append(floored(logprobs))
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
        self._answers = {}
        for row in rows:
            self.begin(row)
        return self.finish()

    def begin(self, row: Row) -> None:
        """Let a row join those that run.

        Raises:
            RestoreError: its state cannot be cut back as it asks.
        """
        self._answers[JobId(row.name)] = Answer()
        start, state = 0, None
        if row.start is not None:
            start = row.use_tokens or row.start.payload.n_tokens
            state = self.restore(row.start.payload, start)
        self.admit(_job(row), start=start, state=state, stops=row.stops)

    def advance(self) -> None:
        """One step of all rows; what stands at a stop is sealed, and what has ended leaves.

        Raises:
            UnsupportedCacheError: a state that cannot be sealed stands at a stop.
        """
        output = self.step()
        for job in output.segment_ends:
            self._answers[job].sealed.append(self.seal(job))
        for job, generated in output.generated:
            if generated.finish is not None:
                self.release(job)

    def sealed(self, name: str) -> Sealed[SealedState]:
        """Run on until a row of that name stands at its first stop, and give its state there."""
        while self._rows and not self._answers[JobId(name)].sealed:
            self.advance()
        return self._answers[JobId(name)].sealed[0]

    def finish(self) -> dict[str, Answer]:
        """Run all rows to their ends; what each said, by its name."""
        while self._rows:
            self.advance()
        return {str(job): answer for job, answer in self._answers.items()}


def _job(row: Row) -> Job:
    return Job(
        id=JobId(row.name),
        tokens=tuple(row.tokens),
        packed=pack(row.tokens),
        boundaries=(),
        bucket=Bucket(model="", cache_signature=""),
        session="",
        max_tokens=row.reply_tokens,
    )
