"""One step of serving: end what was asked to end, admit, decode, capture, deliver. Engine thread only."""

import logging
from collections.abc import Callable
from math import inf
from typing import Generic, TypeVar

from app.bus import Emit
from app.clock import Clock
from app.events import EngineRebuilt
from app.scheduler.admission import Admission, Ending
from app.scheduler.job import Delta, Failed, Job, JobId, Started
from app.scheduler.memory import MemoryKeeper
from app.scheduler.ports import Decoder, DeltaSink, StepOutput
from app.scheduler.rebuilds import Rebuilds
from app.scheduler.reuse import Reuse
from app.scheduler.run import Run
from app.scheduler.shared_prefix import UnderWay, promise_of_snapshot, promise_of_state
from app.scheduler.warming import Warming
from app.snapshots.entry import Payload
from app.vocabulary import FinishReason

P = TypeVar("P", bound=Payload)
S = TypeVar("S")

log = logging.getLogger(__name__)

GATHER_SECONDS = 0.02
GATHER_SHARE = 0.1
"""How long a start may be put off for others being prepared: so many seconds where nothing runs, or such a
share of a step where something does. Prompts that are prefilled together cost one pass over the weights."""

ENGINE_FAILURE = "the engine failed while it worked on this request; the request can be tried again"


QUEUE_TIMEOUT = "the request waited for a place for too long; try again later"

NO_MEMORY = "the server is out of memory for this request beside the others; try again later"


class Scheduler(Generic[P, S]):
    """Continuous batching over a decoder.

    Args:
        decoder: what runs the model.
        reuse: what jobs start from, and what is kept of them.
        admission: where jobs come from.
        warming: what is done for next turns while no job runs.
        max_running: how many jobs are on the decoder at once.
        shared_prefix_tokens: a job waits for a snapshot under way that saves it at least so many tokens.
        queue_seconds: a job that waits longer for a place is refused.
        memory: reckons with each job that runs; None where memory is not watched.
        rebuilds: told of each step that raised.
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
        queue_seconds: float = inf,
        memory: MemoryKeeper | None = None,
        rebuilds: Rebuilds | None = None,
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
        self._queue_seconds = queue_seconds
        self._memory = memory
        self._rebuilds = rebuilds
        self._deliver = deliver
        self._emit = emit
        self._token_gap = token_gap
        self._step_tokens = step_tokens
        self._clock = clock
        self._running: dict[JobId, Run] = {}
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
            self._turn_away(deltas)
            self._admit(deltas)
            if not self._running:
                # The clock of progress starts with work, or an idle night would look like a stall.
                self._last_step = self._clock()
                # A job that is being prepared would wait for the end of a chunk.
                return not self._admission.expects_jobs and self._warming.step()
            began = self._clock()
            output = self._decoder.step()
            self._step_seconds = self._clock() - began
            self._capture(output)
            finished = self._account(output, deltas)
            for job_id, failed in output.failed:
                self._decoder.discard([job_id])
                self._fail(self._running.pop(job_id), failed.message, failed.status, deltas)
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
            self._fail(Run(job), message, 503, deltas)
        self._deliver(deltas)

    def idle(self) -> None:
        """What is done between requests: expired entries and spare memory go."""
        self._reuse.sweep()
        self._decoder.idle()
        if self._memory is not None:
            self._memory.look()

    def _end_what_was_asked(self) -> None:
        wishes = self._admission.wishes()
        for job in wishes.withdrawn:
            self._ended(Run(job), FinishReason.CANCELLED)
        for job_id, how in wishes.endings:
            run = self._running.pop(job_id, None)
            if run is None:
                continue
            now = self._clock()
            try:
                # Before that it has no state of its own.
                if run.prefilled:
                    self._keep_ended(run, how)
                self._decoder.discard([job_id])
            finally:
                reason = FinishReason.STOP if how is Ending.STOPPED else FinishReason.CANCELLED
                self._ended(run, reason, at=now)

    def _keep_ended(self, run: Run, how: Ending) -> None:
        if how is Ending.STOPPED:
            self._keep_completion(run)
        else:
            self._reuse.keep_interrupted(run.job)

    def _turn_away(self, deltas: list[tuple[JobId, Delta]]) -> None:
        """End those that waited for too long, and those that memory has no room for any more."""
        for job in self._admission.overdue(self._clock() - self._queue_seconds):
            self._fail(Run(job), QUEUE_TIMEOUT, 503, deltas)
        if self._memory is None:
            return
        self._memory.look()
        while (job_id := self._memory.one_too_many()) is not None:
            run = self._running.pop(job_id)
            self._decoder.discard([job_id])
            self._fail(run, NO_MEMORY, 503, deltas)

    def _admit(self, deltas: list[tuple[JobId, Delta]]) -> None:
        room = self._max_running - len(self._running)
        if room:
            patience = GATHER_SHARE * self._step_seconds if self._running else GATHER_SECONDS
            self._admission.gather(most=room, seconds=min(patience, GATHER_SECONDS))
        short_of_memory = False

        def may_start(job: Job) -> bool:
            nonlocal short_of_memory
            if short_of_memory or not self._is_ready(job):
                return False
            # Alone it may have all there is: no prompt and reply together are longer than what fits.
            if self._memory is not None and not self._memory.admits(job) and self._running:
                # Those behind it wait as well, or small requests would keep a large one waiting for ever.
                short_of_memory = True
            return not short_of_memory

        while len(self._running) < self._max_running and (job := self._admission.take(may_start)) is not None:
            # Registered before anything can raise, so that the job gets its last word.
            run = self._running[job.id] = Run(job, started=self._clock())
            if self._memory is not None:
                self._memory.begin(job)
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

    def _keep_completion(self, run: Run) -> None:
        if self._reuse.keep_completion(run.job, run.generated_tokens):
            run.stored = len(run.job.tokens)

    def _account(
        self, output: StepOutput, deltas: list[tuple[JobId, Delta]]
    ) -> list[tuple[Run, FinishReason]]:
        """Turn a step's output into deltas and times; the jobs it finished leave `_running`."""
        now = self._clock()
        prefilled_tokens = 0
        for job_id, progress in output.prefilled:
            run = self._running[job_id]
            prefilled_tokens += progress.done - max(run.prefilled, run.cached_tokens)
            run.prefilled = progress.done
        deltas.extend(output.prefilled)
        finished: list[tuple[Run, FinishReason]] = []
        later_tokens = 0
        for job_id, generated in output.generated:
            run = self._running[job_id]
            run.generated_tokens += 1
            if run.first_token is None:
                run.first_token = now
            else:
                later_tokens += 1
            if self._memory is not None:
                self._memory.grow(job_id, len(run.job.tokens) + run.generated_tokens)
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
        if self._rebuilds is not None:
            self._rebuilds.note()
        self._emit(EngineRebuilt(type(error).__name__, failed))

    def _fail_running(self, message: str, status: int, deltas: list[tuple[JobId, Delta]]) -> int:
        failed = list(self._running.values())
        self._running.clear()
        for run in failed:
            self._fail(run, message, status, deltas)
        return len(failed)

    def _fail(self, run: Run, message: str, status: int, deltas: list[tuple[JobId, Delta]]) -> None:
        deltas.append((run.job.id, Failed(message, status)))
        self._ended(run, FinishReason.ERROR, message)

    def _ended(
        self, run: Run, reason: FinishReason, error: str | None = None, *, at: float | None = None
    ) -> None:
        now = self._clock() if at is None else at
        if run.started is not None:
            self._admission.observe(now - run.started)
        if self._memory is not None:
            self._memory.end(run.job.id)
        self._emit(run.ended(reason, error, now))
