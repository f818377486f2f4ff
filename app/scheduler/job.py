"""What crosses between the HTTP side and the engine thread: a job in, deltas out. All immutable."""

from dataclasses import dataclass, field
from typing import NewType, Protocol

from app.events import TraceRef
from app.snapshots.entry import Bucket, TokenBytes
from app.vocabulary import FinishReason, Miss, Origin

JobId = NewType("JobId", str)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How the next token is chosen. Equal values share one sampler object, which mlx-lm runs as one call.

    `temperature` 0 is greedy. `top_p` in (0, 1], `top_k` 0 is off, `min_p` in [0, 1].
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    top_logprobs: int | None = None
    """None: no log-probabilities; 0: of the chosen token only; n: of the n most likely ones too."""


class Walk(Protocol):
    """One reply's way through what it may say. Used on the engine thread, by its row alone."""

    @property
    def failure(self) -> str:
        """Why the reply cannot go on; empty while it can."""
        ...

    def take(self, token: int) -> None:
        """Go on by the token that was chosen."""
        ...

    def allowed(self) -> bytes:
        """A bit for each token that may come next, in words of 32; token 0's is the lowest of the first."""
        ...


class Constraint(Protocol):
    """What a reply may say. Never changed: several jobs may share one."""

    def begin(self) -> Walk:
        """A reply's way through it, at its beginning."""
        ...


@dataclass(frozen=True, slots=True)
class Boundary:
    """A prefill position where a snapshot is taken: the state of the first `length` tokens."""

    origin: Origin
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One generation as the engine needs it. `packed` is `tokens` as the store compares them."""

    id: JobId
    tokens: tuple[int, ...]
    packed: TokenBytes
    boundaries: tuple[Boundary, ...]
    bucket: Bucket
    session: str
    max_tokens: int
    sampling: Sampling = field(default_factory=Sampling)
    constraint: Constraint | None = None
    """None: the reply may say anything."""
    use_snapshots: bool = True
    """False where the client opted out: no lookup and no capture."""
    trace: TraceRef | None = None
    submitted: float = 0.0


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token's natural-log probability, and those of the likeliest alternatives, best first."""

    logprob: float
    top: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class Started:
    """The job left the queue. `cached_tokens` of its prompt are not computed again.

    `diverged_at`: how many tokens it shares with a state that was kept and cannot be cut back so far.
    """

    cached_tokens: int
    miss: Miss | None
    diverged_at: int | None = None


@dataclass(frozen=True, slots=True)
class Prefilled:
    """`done` of `total` prompt tokens are in the model's state, cached ones included."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Generated:
    """The next token; `finish` is set with the last one."""

    token: int
    logprob: TokenLogprob | None
    finish: FinishReason | None


@dataclass(frozen=True, slots=True)
class Failed:
    """The job ended without an answer; nothing follows. `message` can be shown to the client."""

    message: str
    status: int


Delta = Started | Prefilled | Generated | Failed
"""A job's deltas end with exactly one `Generated` that has a `finish`, or one `Failed`, unless it was
cancelled: then nothing more comes."""
