"""One step of serving: end what was asked to end, admit, decode, capture, deliver. Engine thread only."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from app.bus import Emit
from app.clock import Clock
from app.events import EngineRebuilt, FinishReason, GenerationEnded, Miss
from app.scheduler.admission import Admission, Ending
from app.scheduler.job import Boundary, Delta, Failed, Job, JobId, Started
from app.scheduler.ports import Decoder, DeltaSink, StepOutput
from app.scheduler.reuse import Reuse
from app.scheduler.shared_prefix import UnderWay, promise_of_snapshot, promise_of_state
from app.scheduler.warming import Warming
from app.snapshots.entry import Payload

P = TypeVar("P", bound=Payload)
S = TypeVar("S")

log = logging.getLogger(__name__)

GATHER_SECONDS = 0.02
GATHER_SHARE = 0.1
"""How long a start may be put off for others being prepared: so many seconds where nothing runs, or such a
share of a step where something does. Prompts that are prefilled together cost one pass over the weights."""

ENGINE_FAILURE = "the engine failed while it worked on this request; the request can be tried again"


@dataclass(slots=True)
class _Run:
    """A job on its way. `ahead` are the boundaries its prefill has not reached yet, in order."""

    job: Job
    started: float | None = None
    cached_tokens: int = 0
    miss: Miss | None = None
    ahead: list[Boundary] = field(default_factory=list)
    prefilled: int = 0
    first_token: float | None = None
    generated_tokens: int = 0
    stored: int = 0
    """How much of the prompt this run has put into the store, from its beginning on."""


class Scheduler(Generic[P, S]):
    """Continuous batching over a decoder.

    Args:
        decoder: what runs the model.
        reuse: what jobs start from, and what is kept of them.
        admission: where jobs come from.
        warming: what is done for next turns while no job runs.
        max_running: how many jobs are on the decoder at once.
        shared_prefix_tokens: a job waits for a snapshot under way that saves it at least so many tokens.
        deliver: takes every step's deltas in one call.
        emit: takes events.
        token_gap: told (seconds since the rows' last token, number of rows) once a step.
        step_tokens: told (prompt tokens computed, tokens generated) once a step.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        decoder: Decoder[P, S],
        reuse: Reuse[P, S],
        admission: Admission,
        *,
        warming: Warming[P, S],
        max_running: int,
        shared_prefix_tokens: int,
        deliver: DeltaSink,
        emit: Emit,
        token_gap: Callable[[float, int], None],
        step_tokens: Callable[[int, int], None],
        clock: Clock,
    ) -> None:
        self._decoder = decoder
        self._reuse = reuse
        self._admission = admission
        self._warming = warming
        self._max_running = max_running
        self._shared_prefix_tokens = shared_prefix_tokens
        self._deliver = deliver
        self._emit = emit
        self._token_gap = token_gap
        self._step_tokens = step_tokens
        self._clock = clock
        self._running: dict[JobId, _Run] = {}
        self._last_step = clock()
        self._step_seconds = 0.0

    @property
    def running(self) -> int:
        """How many jobs are on the decoder."""
        return len(self._running)

    @property
    def last_step(self) -> float:
        """When the last step ended, on the clock."""
        return self._last_step

    def step(self) -> bool:
        """Do one step; False when there was nothing to do.

        An exception in the decoder fails the jobs in flight and starts the decoder anew; the store stays.
        What this raises itself means that the engine cannot go on.
        """
        deltas: list[tuple[JobId, Delta]] = []
        try:
            self._end_what_was_asked()
            self._admit(deltas)
            if not self._running:
                # The clock of progress starts with work, or an idle night would look like a stall.
                self._last_step = self._clock()
                return self._warming.step()
            began = self._clock()
            output = self._decoder.step()
            self._step_seconds = self._clock() - began
            self._capture(output)
            finished = self._account(output, deltas)
            self._deliver(deltas)
            deltas = []
            try:
                for run, _ in finished:
                    self._keep_completion(run)
                    self._decoder.release(run.job.id)
            finally:
                # They have their last word already, and are told of even where keeping one's state failed.
                for run, reason in finished:
                    self._ended(run, reason, at=self._last_step)
        except Exception as error:  # noqa: BLE001 - whatever it was, this batch is not to be trusted any more
            self._recover(error, deltas)
        return True

    def fail_all(self, message: str) -> None:
        """Give every job that runs or waits its last word, with 503; for an engine that cannot go on."""
        deltas: list[tuple[JobId, Delta]] = []
        self._fail_running(message, 503, deltas)
        while (job := self._admission.take()) is not None:
            deltas.append((job.id, Failed(message, 503)))
            self._ended(_Run(job), FinishReason.ERROR, message)
        self._deliver(deltas)

    def idle(self) -> None:
        """What is done between requests: expired entries and spare memory go."""
        self._reuse.sweep()
        self._decoder.idle()

    def _end_what_was_asked(self) -> None:
        wishes = self._admission.wishes()
        for job in wishes.withdrawn:
            self._ended(_Run(job), FinishReason.CANCELLED)
        for job_id, how in wishes.endings:
            run = self._running.pop(job_id, None)
            if run is None:
                continue
            now = self._clock()
            try:
                if how is Ending.STOPPED:
                    self._keep_completion(run)
                elif run.prefilled:
                    self._reuse.keep_interrupted(run.job)
                self._decoder.discard([job_id])
            finally:
                reason = FinishReason.STOP if how is Ending.STOPPED else FinishReason.CANCELLED
                self._ended(run, reason, at=now)

    def _admit(self, deltas: list[tuple[JobId, Delta]]) -> None:
        room = self._max_running - len(self._running)
        if room:
            patience = GATHER_SHARE * self._step_seconds if self._running else GATHER_SECONDS
            self._admission.gather(most=room, seconds=min(patience, GATHER_SECONDS))
        while (
            len(self._running) < self._max_running
            and (job := self._admission.take(self._is_ready)) is not None
        ):
            # Registered before anything can raise, so that the job gets its last word.
            run = self._running[job.id] = _Run(job, started=self._clock())
            self._warming.give_way(job)
            start = self._reuse.start(job)
            run.cached_tokens, run.miss = start.cached_tokens, start.miss
            run.ahead = self._reuse.captures(job, start.cached_tokens)
            stops = [boundary.length for boundary in run.ahead]
            self._decoder.admit(job, start=start.cached_tokens, state=start.state, stops=stops)
            deltas.append((job.id, Started(start.cached_tokens, start.miss, start.diverged_at)))

    def _is_ready(self, job: Job) -> bool:
        """False while a job under way computes what would save this one much of its prefill."""
        if not job.use_snapshots:
            return True
        under_way = [
            UnderWay(run.job, run.prefilled, run.ahead)
            for run in self._running.values()
            if run.job.use_snapshots
        ]
        find = promise_of_state if self._reuse.completions_suffice else promise_of_snapshot
        promise = find(job, under_way)
        if promise is None or promise.tokens - self._reuse.reach(job) < self._shared_prefix_tokens:
            return True
        if promise.held:
            self._reuse.keep_running(promise.source)
        return promise.held

    def _capture(self, output: StepOutput) -> None:
        for job_id in output.segment_ends:
            run = self._running[job_id]
            boundary = run.ahead.pop(0)
            if self._reuse.keep_boundary(run.job, boundary):
                run.stored = boundary.length

    def _keep_completion(self, run: _Run) -> None:
        if self._reuse.keep_completion(run.job, run.generated_tokens):
            run.stored = len(run.job.tokens)

    def _account(
        self, output: StepOutput, deltas: list[tuple[JobId, Delta]]
    ) -> list[tuple[_Run, FinishReason]]:
        """Turn a step's output into deltas and times; the jobs it finished leave `_running`."""
        now = self._clock()
        prefilled_tokens = 0
        for job_id, progress in output.prefilled:
            run = self._running[job_id]
            prefilled_tokens += progress.done - max(run.prefilled, run.cached_tokens)
            run.prefilled = progress.done
        deltas.extend(output.prefilled)
        finished: list[tuple[_Run, FinishReason]] = []
        later_tokens = 0
        for job_id, generated in output.generated:
            run = self._running[job_id]
            run.generated_tokens += 1
            if run.first_token is None:
                run.first_token = now
            else:
                later_tokens += 1
            deltas.append((job_id, generated))
            if generated.finish is not None:
                finished.append((self._running.pop(job_id), generated.finish))
        if later_tokens:
            self._token_gap(now - self._last_step, later_tokens)
        self._step_tokens(prefilled_tokens, len(output.generated))
        self._last_step = now
        return finished

    def _recover(self, error: Exception, deltas: list[tuple[JobId, Delta]]) -> None:
        log.error("a step failed; its requests are failed and the batch is built anew", exc_info=error)
        failed = self._fail_running(ENGINE_FAILURE, 500, deltas)
        self._deliver(deltas)
        self._warming.fail()
        self._decoder.rebuild()
        self._last_step = self._clock()
        self._emit(EngineRebuilt(type(error).__name__, failed))

    def _fail_running(self, message: str, status: int, deltas: list[tuple[JobId, Delta]]) -> int:
        failed = list(self._running.values())
        self._running.clear()
        for run in failed:
            deltas.append((run.job.id, Failed(message, status)))
            self._ended(run, FinishReason.ERROR, message)
        return len(failed)

    def _ended(
        self, run: _Run, reason: FinishReason, error: str | None = None, *, at: float | None = None
    ) -> None:
        now = self._clock() if at is None else at
        if run.started is not None:
            self._admission.observe(now - run.started)
        self._emit(
            GenerationEnded(
                job_id=run.job.id,
                reason=reason,
                cause=run.job.trace,
                queued=run.job.submitted,
                started=run.started,
                first_token=run.first_token,
                ended=now,
                prompt_tokens=len(run.job.tokens),
                cached_tokens=run.cached_tokens,
                generated_tokens=run.generated_tokens,
                miss=run.miss,
                error=error,
                session=run.job.session,
                stored_tokens=max(run.stored - run.cached_tokens, 0),
            )
        )
