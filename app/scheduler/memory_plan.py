"""What memory there is for requests and snapshots, and how each is reckoned. Knows no device."""

from collections.abc import Callable
from dataclasses import dataclass

from app.scheduler.job import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """What is foretold, because a device that is out of memory may end the process instead of raising.

    Args:
        limit_bytes: most bytes that the process may use.
        headroom_bytes: of these, kept free for what is not foretold: activations, buffers, the prompts' text.
        fixed_bytes: in use once the model is loaded: its weights, and the program.
        state_bytes: tokens → the bytes of a model state of so many.
        reply_tokens: what a reply is reckoned with as its request starts, if it may be as long. One that
            grows beyond is reckoned as it grows.
    """

    limit_bytes: int
    headroom_bytes: int
    fixed_bytes: int
    state_bytes: Callable[[int], int]
    reply_tokens: int

    @property
    def states_bytes(self) -> int:
        """What the states of all requests and all snapshots may take together."""
        return max(self.limit_bytes - self.headroom_bytes - self.fixed_bytes, 0)

    def promised_tokens(self, job: Job) -> int:
        """How long a job's state is reckoned to become, as it starts."""
        return len(job.tokens) + min(job.max_tokens, self.reply_tokens)

    def longest(self, tokens: int) -> int:
        """The most tokens, `tokens` at most, whose state fits where nothing else is; 0: not even one."""
        if self.state_bytes(tokens) <= self.states_bytes:
            return tokens
        fits, too_many = 0, tokens
        while too_many - fits > 1:
            middle = (fits + too_many) // 2
            if self.state_bytes(middle) <= self.states_bytes:
                fits = middle
            else:
                too_many = middle
        return fits
