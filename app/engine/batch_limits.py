"""How many rows a decoder runs at once, and how much of a prompt a step computes."""

from dataclasses import dataclass, replace

from app.engine.device import on_cpu


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """How much runs at once. `prefill_step_tokens` is the chunk of one prompt in one step.

    `long_prompts`: how many of the `prefill_batch` may be longer than that; None: all of them.
    """

    max_running: int
    prefill_batch: int
    prefill_step_tokens: int
    long_prompts: int | None = None

    @classmethod
    def here(
        cls, *, max_running: int, prefill_batch: int, prefill_step_tokens: int | None = None
    ) -> "BatchLimits":
        """What suits this device, where it was not asked for otherwise.

        A GPU has to launch each chunk's kernels anew, and one long prompt's keep it busy. The CPU makes more
        of several prompts: 222 tokens a second of eight for 143 of one, with the demo model.
        """
        return cls(
            max_running=max_running,
            prefill_batch=min(prefill_batch, max_running),
            prefill_step_tokens=prefill_step_tokens or (512 if on_cpu() else 2048),
            long_prompts=None if on_cpu() else 1,
        )

    def one_at_a_time(self) -> "BatchLimits":
        """The same chunk for one row alone."""
        return replace(self, max_running=1, prefill_batch=1)
