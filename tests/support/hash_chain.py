"""A decoder in pure Python whose state is a hash chain of its tokens: a wrong restore changes every reply."""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from app.errors import RestoreError, UnsupportedCacheError
from app.scheduler.job import Generated, Job, JobId, Prefilled
from app.scheduler.ports import Sealed, StepOutput
from app.snapshots.entry import TokenBytes, pack
from app.vocabulary import FinishReason

START = b"\0" * 8


def advance(state: bytes, token: int) -> bytes:
    """The state after one more token."""
    return hashlib.blake2b(state + token.to_bytes(4, "little"), digest_size=8).digest()


def state_of(tokens: Sequence[int]) -> bytes:
    """The state after `tokens`, from nothing."""
    state = START
    for token in tokens:
        state = advance(state, token)
    return state


def reply_to(prompt: Sequence[int], max_tokens: int) -> list[int]:
    """What the chain says to a prompt: always the same, whatever was cached."""
    state = state_of(prompt)
    reply = []
    for _ in range(max_tokens):
        token = state[0]
        reply.append(token)
        state = advance(state, token)
    return reply


@dataclass(frozen=True)
class ChainPayload:
    """`states[i]` is the state after i tokens; a whole-state payload only answers for its last."""

    states: tuple[bytes, ...]
    truncatable: bool
    nbytes: int
    arrays: int = 1

    def can_truncate_to(self, n_tokens: int) -> bool:
        length = len(self.states) - 1
        return n_tokens == length or (self.truncatable and 0 < n_tokens < length)


@dataclass
class _Row:
    job: Job
    states: list[bytes]
    stops: list[int]
    tokens: list[int] = field(default_factory=list)
    generated: int = 0
    finished: bool = False


class HashChainDecoder:
    """Implements the scheduler's Decoder port.

    Args:
        truncatable: whether payloads can be cut back.
        bytes_per_token, fixed_bytes: how large a payload claims to be.
        chunk: prefill tokens a step.
        prefill_rows: how many prompts a step goes on with, the earliest first; None: all of them.
        end_token: ends a reply, as an end-of-turn token does.
        raise_at: steps (counted from 1) that raise.
        broken_restores: that many restores fail.
        unsupported: sealing is refused.
    """

    def __init__(
        self,
        *,
        truncatable: bool = False,
        bytes_per_token: int = 1,
        fixed_bytes: int = 1000,
        chunk: int = 16,
        prefill_rows: int | None = None,
        end_token: int | None = None,
        raise_at: Collection[int] = (),
        broken_restores: int = 0,
        unsupported: bool = False,
    ) -> None:
        self.truncatable = truncatable
        self.bytes_per_token = bytes_per_token
        self.fixed_bytes = fixed_bytes
        self.chunk = chunk
        self.prefill_rows = prefill_rows
        self.end_token = end_token
        self.raise_at = set(raise_at)
        self.broken_restores = broken_restores
        self.unsupported = unsupported
        self.rows: dict[JobId, _Row] = {}
        self.steps = 0
        self.rebuilds = 0
        self.computed_tokens = 0
        self.closed = False

    def admit(self, job: Job, *, start: int, state: list[bytes] | None, stops: Sequence[int]) -> None:
        states = list(state) if state else [START]
        assert len(states) == start + 1
        self.rows[job.id] = _Row(job, states, list(stops), list(job.tokens[:start]))

    def step(self) -> StepOutput:
        self.steps += 1
        if self.steps in self.raise_at:
            raise RuntimeError("a step failed on purpose")
        prefilled: list[tuple[JobId, Prefilled]] = []
        ends, generated = [], []
        for row in list(self.rows.values()):
            if row.finished:
                continue
            job = row.job
            done = len(row.tokens)
            if done < len(job.tokens):
                if len(prefilled) == self.prefill_rows:
                    continue
                edge = row.stops[0] if row.stops else len(job.tokens)
                for token in job.tokens[done : min(done + self.chunk, edge)]:
                    self._append(row, token)
                    self.computed_tokens += 1
                if row.stops and len(row.tokens) == row.stops[0]:
                    row.stops.pop(0)
                    ends.append(job.id)
                prefilled.append((job.id, Prefilled(len(row.tokens), len(job.tokens))))
                continue
            token = row.states[-1][0]
            self._append(row, token)
            row.generated += 1
            finish = None
            if token == self.end_token:
                finish = FinishReason.STOP
            elif row.generated >= job.max_tokens:
                finish = FinishReason.LENGTH
            row.finished = finish is not None
            generated.append((job.id, Generated(token, None, finish)))
        return StepOutput(prefilled, ends, generated)

    def _append(self, row: _Row, token: int) -> None:
        row.tokens.append(token)
        row.states.append(advance(row.states[-1], token))

    def discard(self, jobs: Collection[JobId]) -> None:
        for job in jobs:
            self.rows.pop(job, None)

    def seal(self, job: JobId) -> Sealed[ChainPayload]:
        if self.unsupported:
            raise UnsupportedCacheError("this chain is not for keeping")
        row = self.rows[job]
        assert row.tokens, "there is no state before the prefill has begun"
        nbytes = self.fixed_bytes + self.bytes_per_token * len(row.tokens)
        payload = ChainPayload(tuple(row.states), self.truncatable, nbytes)
        tokens: TokenBytes = pack(row.tokens)
        return Sealed(payload, tokens)

    def restore(self, payload: ChainPayload, n_tokens: int) -> list[bytes]:
        if self.broken_restores:
            self.broken_restores -= 1
            raise RestoreError("this restore fails on purpose")
        if not payload.can_truncate_to(n_tokens):
            raise RestoreError(f"cannot be cut back to {n_tokens}")
        return list(payload.states[: n_tokens + 1])

    def release(self, job: JobId) -> None:
        self.rows.pop(job, None)

    def rebuild(self) -> None:
        self.rows.clear()
        self.rebuilds += 1

    def idle(self) -> None:
        return

    def close(self) -> None:
        self.closed = True
