"""Tries a loaded model before it serves: what comes out wrong is switched off instead of served wrong.

It compares a model's answers with each other, over the very code that serves; it must know no family by name.
Engine thread only.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from app.engine.batch_limits import BatchLimits
from app.engine.kinds import unknown_kinds
from app.engine.probe import PROBE_LIMITS, Answer, ProbeDecoder, Prompts, Row, close, prompts_below
from app.engine.soundness import shown_sound

if TYPE_CHECKING:
    from app.engine.payload import SealedState
    from app.scheduler.ports import Sealed

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a model can be trusted with. `shortcomings` says, in a sentence each, what it cannot.

    `reuse`: a state that was sealed and restored goes on as if it had never left. `truncation`: so does one
    that was cut back. `batched_prefill`: prompts of unequal length may be prefilled together.
    `batched_decode`: several replies may be decoded together. `unknown_kinds`: caches that cannot be sealed.
    `lasting`: only answers decided, so that another check of the same model finds the same; an error on the
    way may have been an accident.
    """

    reuse: bool = True
    truncation: bool = True
    batched_prefill: bool = True
    batched_decode: bool = True
    unknown_kinds: tuple[str, ...] = ()
    shortcomings: tuple[str, ...] = ()
    lasting: bool = True

    def limits(self, asked: BatchLimits) -> BatchLimits:
        """The batch sizes asked for, as far as they are safe."""
        if not self.batched_decode:
            return asked.one_at_a_time()
        return asked if self.batched_prefill else replace(asked, prefill_batch=1)


def check(network: Any, *, vocabulary_size: int) -> Capabilities:
    """Find out what a model can be trusted with: ten passes over a sound one's weights, some sixty else.

    Args:
        network: an mlx-lm model.
        vocabulary_size: its tokens are ids below this.
    """
    prompts = prompts_below(vocabulary_size)
    probe = ProbeDecoder(network)
    kinds = unknown_kinds(probe.new_caches())
    batched_decode = probe.max_running > 1
    if batched_decode and not kinds and (sound := shown_sound(network, prompts)) is not None:
        return Capabilities(truncation=sound.cuts)
    trial = _Trial(network, probe, prompts)
    if kinds or not trial.holds(trial.restores):
        trial.sealed = None
    sealed = trial.sealed
    truncation = sealed is not None and sealed.payload.can_truncate_to(prompts.cut)
    cuts = truncation and trial.holds(trial.truncates)
    batched_prefill = batched_decode and trial.holds(lambda: trial.batches(PROBE_LIMITS))
    if batched_decode and not batched_prefill:
        batched_decode = trial.holds(lambda: trial.batches(replace(PROBE_LIMITS, prefill_batch=1)))
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
        lasting=not trial.raised,
    )


class _Trial:
    """What the model says to each prompt alone and from nothing, and whether it also says so otherwise.

    `sealed` is the state in the middle of the longer ones, as long as it is to be trusted; `raised`: whether
    a law was broken by an error.
    """

    def __init__(self, network: Any, probe: ProbeDecoder, prompts: Prompts) -> None:
        self.sealed: Sealed[SealedState] | None = None
        self.raised = False
        self._network = network
        self._probe = probe
        self._prompts = prompts
        self._cold = self._alone(Row(name="near", tokens=prompts.near))
        self._cold |= self._alone(Row(name="long", tokens=prompts.long))
        self._cold |= self._alone(Row(name="short", tokens=prompts.short))

    def holds(self, law: Callable[[], bool]) -> bool:
        """Whether a law holds. A model that raises breaks it as surely as one that answers wrong."""
        try:
            return law()
        except Exception:
            log.exception("the self-check of the model failed")
            self.raised = True
            return False

    def restores(self) -> bool:
        """Whether a prefill through a stop, and from the state sealed there, says what a cold one says.

        From there twice: the first restore must leave the stored state as it was.
        """
        near = self._prompts.near
        through = self._alone(Row(name="near", tokens=near, stops=(self._prompts.boundary,)))
        (self.sealed,) = through["near"].sealed
        from_there = Row(name="near", tokens=near, start=self.sealed)
        return self._as_cold(through, self._alone(from_there), self._alone(from_there))

    def truncates(self) -> bool:
        """Whether the sealed state, cut back to what both prompts share, goes on as the short one."""
        cut = Row(name="short", tokens=self._prompts.short, start=self.sealed, use_tokens=self._prompts.cut)
        return self._as_cold(self._alone(cut))

    def batches(self, limits: BatchLimits) -> bool:
        """Whether both prompts, the longer one cold and restored, say together what they say alone."""
        probe = ProbeDecoder(self._network, limits=limits)
        short = Row(name="short", tokens=self._prompts.short)
        starts = (None,) if self.sealed is None else (None, self.sealed)
        return all(
            self._as_cold(probe.run(Row(name="long", tokens=self._prompts.long, start=start), short))
            for start in starts
        )

    def _alone(self, row: Row) -> dict[str, Answer]:
        return self._probe.run(row)

    def _as_cold(self, *runs: dict[str, Answer]) -> bool:
        return all(close(self._cold[name], answer) for run in runs for name, answer in run.items())
