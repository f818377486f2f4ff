"""Tries a loaded model before it serves: what comes out wrong is switched off instead of served wrong.

It compares a model's answers with each other, over the very code that serves; it must know no family by name.
Engine thread only.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from app.engine.decoder import BatchLimits
from app.engine.kinds import unknown_kinds
from app.engine.probe import PROBE_LIMITS, Answer, ProbeDecoder, Row, distance

if TYPE_CHECKING:
    from app.engine.payload import SealedState
    from app.scheduler.ports import Sealed

log = logging.getLogger(__name__)

TOLERANCE = 0.2
"""The largest `distance` that is taken for rounding. Measured on shrunk models: a segmented prefill against a
whole one is 0.0000 apart in float32 (26 families) and at most 0.02 in bfloat16 (the 15 that the CPU can run
in it); a state that took in padding is 0.78 to 1.59 away, unrelated prompts 1.14 to 1.58. An error as small
as rounding passes: recurrent_gemma's 0.013 beside a restored row does, and only its padding gives it away."""

_LONG_TOKENS = 23
_SHORT_TOKENS = 9
_BOUNDARY = 12
"""Leaves the long prompt 11 tokens to go: restored, it is still longer than the short one and pads it."""

_CUT = 4
"""How much of its beginning the short prompt has from the long one, whose state is cut back to that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a model can be trusted with. `shortcomings` says, in a sentence each, what it cannot.

    `reuse`: a state that was sealed and restored goes on as if it had never left. `truncation`: so does one
    that was cut back. `batched_prefill`: prompts of unequal length may be prefilled together.
    `batched_decode`: several replies may be decoded together. `unknown_kinds`: caches that cannot be sealed.
    """

    reuse: bool = True
    truncation: bool = True
    batched_prefill: bool = True
    batched_decode: bool = True
    unknown_kinds: tuple[str, ...] = ()
    shortcomings: tuple[str, ...] = ()

    def limits(self, asked: BatchLimits) -> BatchLimits:
        """The batch sizes asked for, as far as they are safe."""
        if not self.batched_decode:
            return asked.one_at_a_time()
        return asked if self.batched_prefill else replace(asked, prefill_batch=1)


def check(network: Any, *, vocabulary_size: int) -> Capabilities:
    """Find out what a model can be trusted with, in some forty passes over its weights.

    Args:
        network: an mlx-lm model.
        vocabulary_size: its tokens are ids below this.
    """
    trial = _Trial(network, vocabulary_size)
    kinds = unknown_kinds(trial.probe.new_caches())
    if kinds or not _holds(trial.restores):
        trial.sealed = None
    sealed = trial.sealed
    truncation = sealed is not None and sealed.payload.can_truncate_to(_CUT)
    cuts = truncation and _holds(trial.truncates)
    batched_decode = trial.probe.max_running > 1
    batched_prefill = batched_decode and _holds(lambda: trial.batches(PROBE_LIMITS))
    if batched_decode and not batched_prefill:
        batched_decode = _holds(lambda: trial.batches(replace(PROBE_LIMITS, prefill_batch=1)))
    shortcomings = (
        (kinds, f"no snapshots: its state is of a kind that cannot be kept ({', '.join(kinds)})"),
        (not (kinds or sealed), "no snapshots: a restored state does not go on as what it was taken from"),
        (truncation and not cuts, "snapshots are used whole only: one cut back does not go on as a shorter"),
        (
            batched_decode and not batched_prefill,
            "prompts are prefilled one at a time: they mix if padded",
        ),
        (not batched_decode, "requests run one at a time: its states cannot be batched"),
    )
    return Capabilities(
        reuse=sealed is not None,
        truncation=cuts,
        batched_prefill=batched_prefill,
        batched_decode=batched_decode,
        unknown_kinds=kinds,
        shortcomings=tuple(sentence for applies, sentence in shortcomings if applies),
    )


class _Trial:
    """Two prompts of unequal length, and what the model says to each alone and from nothing.

    `sealed` is the state in the middle of the longer one, as long as it is to be trusted.
    """

    def __init__(self, network: Any, vocabulary_size: int) -> None:
        self.probe = ProbeDecoder(network)
        self.sealed: Sealed[SealedState] | None = None
        self._network = network
        # Any tokens do, as long as no two neighbourhoods are alike.
        self._long = [(7 * i + i * i) % vocabulary_size for i in range(_LONG_TOKENS)]
        others = [(11 * i + 3) % vocabulary_size for i in range(_SHORT_TOKENS - _CUT)]
        self._short = self._long[:_CUT] + others
        self._cold = self._alone(Row(name="long", tokens=self._long))
        self._cold |= self._alone(Row(name="short", tokens=self._short))

    def restores(self) -> bool:
        """Whether a prefill through a stop, and from the state sealed there, says what a cold one says.

        From there twice: the first restore must leave the stored state as it was.
        """
        through = self._alone(Row(name="long", tokens=self._long, stops=(_BOUNDARY,)))
        (self.sealed,) = through["long"].sealed
        from_there = Row(name="long", tokens=self._long, start=self.sealed)
        return self._as_cold(through, self._alone(from_there), self._alone(from_there))

    def truncates(self) -> bool:
        """Whether the sealed state, cut back to what both prompts share, goes on as the short one."""
        return self._as_cold(
            self._alone(Row(name="short", tokens=self._short, start=self.sealed, use_tokens=_CUT))
        )

    def batches(self, limits: BatchLimits) -> bool:
        """Whether both prompts, the longer one cold and restored, say together what they say alone."""
        probe = ProbeDecoder(self._network, limits=limits)
        short = Row(name="short", tokens=self._short)
        starts = (None,) if self.sealed is None else (None, self.sealed)
        return all(
            self._as_cold(probe.run(Row(name="long", tokens=self._long, start=start), short))
            for start in starts
        )

    def _alone(self, row: Row) -> dict[str, Answer]:
        return self.probe.run(row)

    def _as_cold(self, *runs: dict[str, Answer]) -> bool:
        return all(_close(self._cold[name], answer) for run in runs for name, answer in run.items())


def _close(one: Answer, other: Answer) -> bool:
    return distance(one, other) <= TOLERANCE


def _holds(law: Callable[[], bool]) -> bool:
    """Whether a law holds. A model that raises on the way breaks it as surely as one that answers wrong."""
    try:
        return law()
    except Exception:
        log.exception("the self-check of the model failed")
        return False
