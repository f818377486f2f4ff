"""The scheduler's decoder over mlx-lm's BatchGenerator, and the only user of it. Engine thread only."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import mlx.core as mx
from mlx_lm.generate import BatchGenerator
from mlx_lm.models.cache import make_prompt_cache

from app.clock import Clock, monotonic
from app.engine.batch_limits import BatchLimits
from app.engine.first_token import computed_token
from app.engine.kinds import Cache, can_be_batched
from app.engine.lone_row import as_lone_rows
from app.engine.one_row import as_one_row
from app.engine.payload import SealedState, seal
from app.engine.sampling import PENALTY_TOKENS, Samplers, logits_processors, token_logprob
from app.engine.token_mask import TokenMask
from app.errors import RestoreError
from app.scheduler.job import Failed, Generated, Job, JobId, Prefilled
from app.scheduler.ports import Sealed, StepOutput
from app.scheduler.prefill_pace import PrefillPace
from app.scheduler.prompt_order import beginning
from app.snapshots.entry import BYTES_PER_TOKEN, TokenBytes, pack
from app.vocabulary import FinishReason

_CANNOT_GO_ON = 400
"""Status of a request whose reply cannot be held any longer to what it asked for."""

_FINISH = {"stop": FinishReason.STOP, "length": FinishReason.LENGTH}


@dataclass(slots=True, eq=False)
class _Row:
    """A job that is admitted: `start` tokens were restored into `state`, `stops` are the positions ahead.

    `uid`: what the batch generator calls it; None while it waits for its prefill to begin. `done` of its
    prompt's tokens are in its state; `decoding`: it has left the batch of prompts; `writing`: it has its
    first token; `ahead`: mlx-lm is still to hand that out. It was told of the tokens from `told_from` on.
    """

    job: Job
    start: int
    state: list[Cache] | None
    stops: list[int]
    done: int
    told_from: int
    uid: int | None = None
    decoding: bool = False
    writing: bool = False
    ahead: bool = False
    mask: TokenMask | None = None
    finished: tuple[list[Cache], list[int]] | None = field(default=None)


class BatchDecoder:
    """Continuous batching for one model. A model whose caches cannot be merged runs one row at a time.

    Args:
        model: an mlx-lm model.
        end_tokens: token ids that end a reply.
        limits: batch sizes and the prefill chunk.
        truncatable: whether sealed states may be cut back, where their caches can be.
        pace: how long chunks may be while replies are written; None: always the same.
        clock: monotonic seconds.
        wired_bytes: what macOS may not page out; None: what the GPU recommends.
    """

    def __init__(
        self,
        model: Any,
        *,
        end_tokens: Iterable[int],
        limits: BatchLimits,
        truncatable: bool = True,
        pace: PrefillPace | None = None,
        clock: Clock = monotonic,
        wired_bytes: int | None = None,
    ) -> None:
        self._model = model
        self._end_tokens = sorted(end_tokens)
        self._truncatable = truncatable
        self._batched = can_be_batched(self.new_caches())
        self._limits = limits if self._batched else limits.one_at_a_time()
        self._pace = pace
        self._clock = clock
        self._wired_bytes = wired_bytes
        self._samplers = Samplers()
        self._rows: dict[JobId, _Row] = {}
        self._waiting: list[_Row] = []
        self._by_uid: dict[int, _Row] = {}
        self._generator = self._new_generator()

    def new_caches(self) -> list[Cache]:
        """The model's own empty caches, one a layer."""
        caches: list[Cache] = make_prompt_cache(self._model)
        return caches

    def restrict(self, limits: BatchLimits, *, truncatable: bool) -> None:
        """Go on with these limits, with nothing admitted; for what a model turns out not to be good for."""
        self._limits = limits if self._batched else limits.one_at_a_time()
        self._truncatable = truncatable
        self.rebuild()

    @property
    def max_running(self) -> int:
        """How many jobs it can run at once; more that are admitted wait in it."""
        return self._limits.max_running

    def admit(self, job: Job, *, start: int, state: list[Cache] | None, stops: Sequence[int]) -> None:
        """Queue a job for prefill from `start` on; its segments end at `stops` and at the prompt's end."""
        told_from = max(start - PENALTY_TOKENS, 0)
        mask = None if job.constraint is None else TokenMask(job.constraint.begin())
        row = _Row(job, start, state, list(stops), start, told_from, mask=mask)
        self._rows[job.id] = row
        self._waiting.append(row)

    def _begin(self) -> None:
        """Give those of the rows that wait to the generator whose turn it is."""
        if not self._waiting:
            return
        prompts = [row for row in self._by_uid.values() if not row.decoding]
        places = min(self._limits.max_running - len(self._by_uid) + len(prompts), self._limits.prefill_batch)
        chosen = beginning(
            [len(row.job.tokens) - row.done for row in prompts],
            [len(row.job.tokens) - row.start for row in self._waiting],
            chunk=self._limits.prefill_step_tokens,
            most=places,
            most_long=places if self._limits.long_prompts is None else self._limits.long_prompts,
        )
        for row in [self._waiting[place] for place in chosen]:
            self._waiting.remove(row)
            self._insert(row)

    def _insert(self, row: _Row) -> None:
        job, start = row.job, row.start
        edges = [start, *row.stops, len(job.tokens)]
        caches = self.new_caches() if row.state is None else row.state
        row.state = None
        # The mask comes last: a bias or a penalty allows nothing that it forbids.
        processors = [*logits_processors(job.sampling), *([] if row.mask is None else [row.mask])]
        (row.uid,) = self._generator.insert_segments(
            [[list(job.tokens[begin:end]) for begin, end in pairwise(edges)]],
            max_tokens=[job.max_tokens],
            caches=[as_lone_rows(caches) if self._batched else as_one_row(caches)],
            # A list of its own: mlx-lm appends to it as the state grows. Only penalties look back in it.
            all_tokens=[list(job.tokens[row.told_from : start])],
            samplers=[self._samplers.sampler(job.sampling)],
            logits_processors=[processors],
        )
        self._by_uid[row.uid] = row

    def step(self) -> StepOutput:
        """One decode step for all running rows and one prefill chunk for those that still prefill."""
        self._begin()
        self._generator.prefill_step_size = self._chunk_tokens()
        began, computed = self._clock(), 0
        prompts, replies = self._generator.next()
        prefilled: list[tuple[JobId, Prefilled]] = []
        segment_ends: list[JobId] = []
        for response in prompts:
            row = self._by_uid[response.uid]
            done = row.start + response.progress[0]
            computed += done - row.done
            row.done, row.decoding = done, response.end_of_prompt
            prefilled.append((row.job.id, Prefilled(done, len(row.job.tokens))))
            # mlx-lm also ends a segment before each prompt's last token; only ours are reported.
            if response.end_of_segment and row.stops and row.stops[0] == done:
                row.stops.pop(0)
                segment_ends.append(row.job.id)
        if self._pace is not None and computed and replies:
            self._pace.observe(computed, self._clock() - began)
        generated: list[tuple[JobId, Generated]] = []
        failed: list[tuple[JobId, Failed]] = []
        for reply in replies:
            row = self._by_uid[reply.uid]
            # What the mask knows is one token ahead; a reply that has ended needs no other.
            if row.mask is not None and row.mask.failure and reply.finish_reason is None:
                failed.append((row.job.id, Failed(row.mask.failure, _CANNOT_GO_ON)))
            elif row.ahead:
                row.ahead = False
            else:
                generated.append(self._handed_out(row, reply))
        if (first := self._first_token()) is not None:
            generated.append(first)
        return StepOutput(prefilled, segment_ends, generated, failed)

    def _chunk_tokens(self) -> int:
        """How much of each prompt the next step computes: no more than replies under way can wait for."""
        most = self._limits.prefill_step_tokens
        writing = sum(row.writing for row in self._by_uid.values())
        prompts = len(self._by_uid) - writing
        if self._pace is None or not (writing and prompts):
            return most
        return max(min(self._pace.tokens // prompts, most), 1)

    def _first_token(self) -> tuple[JobId, Generated] | None:
        """That of a row which is alone and has just ended its prompt, unless its reply ends with it."""
        if len(self._by_uid) != 1:
            return None
        ((uid, row),) = self._by_uid.items()
        if not row.decoding or row.writing or row.job.max_tokens == 1:
            return None
        computed = computed_token(self._generator, uid)
        if computed is None or computed[0] in self._end_tokens:
            return None
        row.ahead = True
        return self._generated(row, *computed, None)

    def _handed_out(self, row: _Row, reply: Any) -> tuple[JobId, Generated]:
        finish = None
        if reply.finish_reason is not None:
            finish = _FINISH[reply.finish_reason]
            row.finished = (reply.prompt_cache, reply.all_tokens)
            del self._by_uid[reply.uid]
        return self._generated(row, reply.token, reply.logprobs, finish)

    def _generated(
        self, row: _Row, token: int, logprobs: mx.array, finish: FinishReason | None
    ) -> tuple[JobId, Generated]:
        row.writing = True
        wanted = row.job.sampling.top_logprobs
        logprob = None if wanted is None else token_logprob(logprobs, token, wanted)
        return row.job.id, Generated(token, logprob, finish)

    def seal(self, job: JobId) -> Sealed[SealedState]:
        """Copy out the state of a job whose prefill has begun, with the tokens it describes."""
        row = self._rows[job]
        if row.finished is not None:
            caches, told = row.finished
        else:
            caches, told = self._generator.extract_cache([row.uid])[row.uid]
        n_tokens = row.told_from + len(told)
        # The prompt's are packed already, and a history is long.
        generated = told[len(row.job.tokens) - row.told_from :]
        tokens = TokenBytes(row.job.packed[: n_tokens * BYTES_PER_TOKEN] + pack(generated))
        return Sealed(seal(caches, n_tokens, truncatable=self._truncatable), tokens)

    def restore(self, payload: SealedState, n_tokens: int) -> list[Cache]:
        """A private state of the first `n_tokens` tokens, checked against what this model would make."""
        caches = payload.restore(n_tokens)
        expected = self.new_caches()
        if [type(cache) for cache in caches] != [type(cache) for cache in expected]:
            raise RestoreError("the stored state was made by a model with other cache kinds")
        return caches

    def release(self, job: JobId) -> None:
        """Forget a finished job."""
        row = self._rows.pop(job, None)
        if row is None:
            return
        if row.uid is None:
            self._waiting.remove(row)
        else:
            self._by_uid.pop(row.uid, None)

    def discard(self, jobs: Collection[JobId]) -> None:
        """Take jobs out of the batch at whatever stage they are."""
        rows = [row for job in jobs if (row := self._rows.get(job)) and row.finished is None]
        uids = [row.uid for row in rows if row.uid is not None]
        if uids:
            self._generator.remove(uids)
        for job in jobs:
            self.release(job)

    def rebuild(self) -> None:
        """A new batch generator: after an exception in a step, the old one's rows and tokens disagree."""
        self._forget_rows()
        self._generator.close()
        self._generator = self._new_generator()
        mx.clear_cache()

    def idle(self) -> None:
        """Give MLX's free buffers back to the system."""
        mx.clear_cache()

    def close(self) -> None:
        """Drop the model and end this thread's use of the device; nothing may be called after it.

        A thread that ends with live streams aborts the process at exit (ml-explore/mlx issue 4373).
        """
        self._forget_rows()
        self._generator.close()
        del self._generator, self._model
        mx.synchronize()
        mx.clear_cache()
        mx.clear_streams()

    def _forget_rows(self) -> None:
        self._rows.clear()
        self._waiting.clear()
        self._by_uid.clear()

    def _new_generator(self) -> BatchGenerator:
        generator = BatchGenerator(
            self._model,
            stop_tokens=[[token] for token in self._end_tokens],
            completion_batch_size=self._limits.max_running,
            prefill_batch_size=self._limits.prefill_batch,
            prefill_step_size=self._limits.prefill_step_tokens,
        )
        # After mlx-lm, which has just wired what the GPU recommends.
        if self._wired_bytes is not None:
            mx.set_wired_limit(self._wired_bytes)
        return generator
