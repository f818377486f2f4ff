"""The listener that feeds histograms, and counters of what is not the store's: its tally counts that."""

from typing import assert_never

from app.events import (
    AdminCalled,
    CaptureDeclined,
    EngineRebuilt,
    Event,
    GenerationEnded,
    LookupHit,
    LookupMissed,
    PayloadRestored,
    PayloadSealed,
    RequestEnded,
    SnapshotEvent,
    SnapshotInserted,
    SnapshotRejected,
    SnapshotRemoved,
    TraceRef,
    Transaction,
    WarmupEnded,
)
from app.telemetry.label_values import DEPARTURES, OTHER, Prompt, Reuse
from app.telemetry.metrics import Instruments
from app.vocabulary import Miss, Outcome

NEVER_RUN = frozenset({Outcome.INVALID, Outcome.REFUSED})
"""Outcomes of requests that were answered without being run; their duration is no measure of the service."""


UNASKED = frozenset({Miss.DISABLED, Miss.OPTED_OUT})
"""Misses without a lookup; their time would only make the others look fast."""


class Counting:
    """Feeds `instruments`; called on whichever thread an event comes from."""

    def __init__(self, instruments: Instruments) -> None:
        self._instruments = instruments

    def __call__(self, event: Event) -> None:
        """Observe one event."""
        to = self._instruments
        match event:
            case Transaction(events=parts):
                for part in parts:
                    self._snapshot(part, event.ended - event.started)
            case PayloadSealed() | PayloadRestored():
                self._payload(event)
            case CaptureDeclined(reason=reason):
                to.declines.get(reason, to.declines[OTHER]).inc()
            case WarmupEnded(outcome=outcome, computed_tokens=computed_tokens):
                to.warmups[outcome].inc()
                to.warmup_tokens.inc(computed_tokens)
            case GenerationEnded():
                self._generation(event)
            case RequestEnded():
                self._request(event)
            case EngineRebuilt():
                to.rebuilds.inc()
            case AdminCalled():
                pass
            case _:
                assert_never(event)

    def _snapshot(self, event: SnapshotEvent, call_seconds: float) -> None:
        to = self._instruments
        match event:
            case SnapshotInserted(entry=entry):
                to.size.observe(entry.nbytes)
                to.prefix.observe(entry.tokens)
            case SnapshotRemoved(reason=reason, idle_seconds=idle_seconds, hits=hits):
                to.idle_before_removal[reason].observe(idle_seconds)
                to.entry_hits[DEPARTURES[reason]].observe(hits)
            case LookupHit(reuse_gap_seconds=reuse_gap_seconds):
                to.lookup_time.observe(call_seconds)
                to.reuse_gap.observe(reuse_gap_seconds)
            case LookupMissed(reason=reason):
                if reason not in UNASKED:
                    to.lookup_time.observe(call_seconds)
                if reason is Miss.DIVERGED:
                    to.divergence.observe(event.common_prefix_tokens)
            case SnapshotRejected():
                pass
            case _:
                assert_never(event)

    def _payload(self, event: PayloadSealed | PayloadRestored) -> None:
        to = self._instruments
        seconds = event.ended - event.started
        match event:
            case PayloadSealed(nbytes=nbytes):
                if nbytes is not None:
                    to.capture.observe(seconds)
            case PayloadRestored(error=error):
                if error is None:
                    to.restore.observe(seconds)
            case _:
                assert_never(event)

    def _request(self, ended: RequestEnded) -> None:
        to = self._instruments
        to.requests.get((ended.route, ended.outcome), to.requests[OTHER, ended.outcome]).inc()
        if ended.outcome not in NEVER_RUN:
            to.duration.observe(ended.seconds)

    def _generation(self, ended: GenerationEnded) -> None:
        to = self._instruments
        if ended.started is None:
            return
        to.queue.observe(ended.started - ended.queued)
        if ended.first_token is None:
            # How much of the prompt was computed is unknown here, so neither source is counted.
            return
        to.prefill.observe(ended.first_token - ended.started)
        to.decode.observe(ended.ended - ended.first_token)
        to.prompt_tokens[Prompt.CACHED].inc(ended.cached_tokens)
        to.prompt_tokens[Prompt.COMPUTED].inc(ended.prompt_tokens - ended.cached_tokens)
        reuse = Reuse.HIT if ended.cached_tokens else Reuse.MISS
        to.time_to_first_token[reuse].observe(ended.first_token - ended.queued, _exemplar(ended.cause))


def _exemplar(cause: TraceRef | None) -> dict[str, str] | None:
    """A pointer to the trace, where there is one to be found."""
    return {"trace_id": f"{cause.trace_id:032x}"} if cause is not None and cause.sampled else None
