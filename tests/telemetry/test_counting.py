"""What events do to histograms and counters."""

import pytest

from app.events import CaptureDeclined, EngineRebuilt, PayloadRestored, PayloadSealed, RequestEnded
from app.snapshots.entry import pack
from app.telemetry.label_values import DEPARTURES, Departure
from app.vocabulary import FinishReason, Miss, Origin, Outcome, Rejection, Removal
from tests.support.jobs import make_job
from tests.support.serving_room import ServingRoom
from tests.support.snapshots import BUCKET, Block, limits
from tests.telemetry.generations import generation
from tests.telemetry.metrics_room import ROUTES, MetricsRoom


@pytest.fixture
def room():
    return MetricsRoom()


STAGES = ("queue", "prefill", "decode")


def stage_counts(room: MetricsRoom) -> list[float]:
    return [room.value(f"samovar_request_{stage}_seconds_count") for stage in STAGES]


def test_a_generation_is_told_in_its_stages(room):
    """Queue, prefill and decode add up to the request's life; first token counts from its arrival."""
    room.hear(generation())
    assert [room.value(f"samovar_request_{stage}_seconds_sum") for stage in STAGES] == [1, 2, 4]
    assert room.value("samovar_time_to_first_token_seconds_sum", cache="hit") == 3
    assert room.value("samovar_generated_tokens_total") == 0, "its tokens were counted as they came"


def test_prompt_tokens_are_split_by_where_they_came_from(room):
    """Cached and computed tokens together are the prompt."""
    room.hear(generation(), generation(cached_tokens=0, miss=Miss.EMPTY))
    assert room.value("samovar_prompt_tokens_total", source="cached") == 60
    assert room.value("samovar_prompt_tokens_total", source="computed") == 140
    assert room.value("samovar_time_to_first_token_seconds_count", cache="hit") == 1
    assert room.value("samovar_time_to_first_token_seconds_count", cache="miss") == 1


def test_a_stage_that_never_began_is_not_observed(room):
    """A request cancelled while it waits tells of no stage; one cancelled in prefill tells of the queue."""
    room.hear(generation(reason=FinishReason.CANCELLED, started=None, first_token=None, generated_tokens=0))
    assert stage_counts(room) == [0, 0, 0]
    room.hear(generation(reason=FinishReason.CANCELLED, first_token=None, generated_tokens=0))
    assert stage_counts(room) == [1, 0, 0]
    assert room.total("samovar_prompt_tokens_total") == 0
    assert room.total("samovar_time_to_first_token_seconds_count") == 0


@pytest.mark.parametrize("outcome", Outcome)
def test_a_request_counts_under_its_route_and_outcome(room, outcome):
    """Every answer is counted; only that of a request that was run has a duration worth telling."""
    room.hear(RequestEnded(ROUTES[1], outcome, 200, 2.5))
    assert room.value("samovar_requests_total", route=ROUTES[1], outcome=outcome) == 1
    was_run = outcome not in {Outcome.INVALID, Outcome.REFUSED}
    assert room.value("samovar_request_duration_seconds_count") == was_run
    assert room.value("samovar_request_duration_seconds_sum") == was_run * 2.5


def test_only_a_state_that_was_really_copied_has_a_copying_time(room):
    """A refused capture and a failed restore are not among the times of those that worked."""
    room.hear(
        PayloadSealed(Origin.BOUNDARY, None, 1.0, 1.25, tokens=9, nbytes=100),
        PayloadSealed(Origin.BOUNDARY, None, 1.0, 9.0, tokens=9, nbytes=None),
        PayloadRestored(None, 2.0, 2.5, tokens=9, nbytes=100, error=None),
        PayloadRestored(None, 2.0, 9.0, tokens=9, nbytes=100, error="wrong shape"),
    )
    assert room.value("samovar_snapshot_capture_seconds_count") == 1
    assert room.value("samovar_snapshot_capture_seconds_sum") == 0.25
    assert room.value("samovar_snapshot_restore_seconds_count") == 1
    assert room.value("samovar_snapshot_restore_seconds_sum") == 0.5


def test_a_decline_counts_under_its_reason_or_under_other(room):
    """The reasons are a closed set; a new one is counted all the same."""
    room.hear(CaptureDeclined("history_rewritten", None), CaptureDeclined("never heard of", None))
    assert room.value("samovar_capture_declines_total", reason="history_rewritten") == 1
    assert room.value("samovar_capture_declines_total", reason="other") == 1


def test_each_rebuild_is_counted(room):
    """However many jobs it failed, a rebuild is one."""
    room.hear(EngineRebuilt("RuntimeError", failed_jobs=3))
    assert room.value("samovar_engine_rebuilds_total") == 1


def test_an_insert_shows_its_size_and_length(room):
    """Accepted snapshots are in the size and token histograms; rejected ones are not."""
    room.put(1, 2, 3, nbytes=500)
    room.put(1, nbytes=10_000_000)
    assert room.total("samovar_snapshot_rejections_total") == 1
    assert room.value("samovar_snapshot_size_bytes_sum") == 500
    assert room.value("samovar_snapshot_prefix_tokens_sum") == 3
    assert room.value("samovar_snapshot_size_bytes_count") == 1


def test_idle_time_is_told_for_hits_and_for_removals_alike(room):
    """Both histograms measure the time since the last use, so that their curves can be compared."""
    room.put(1, 2)
    room.clock.advance(50)
    room.look_up(1, 2, 3)
    room.clock.advance(400)
    room.put(1, 2, 3)
    assert room.value("samovar_snapshot_reuse_gap_seconds_sum") == 50
    assert room.value("samovar_snapshot_idle_before_removal_seconds_sum", reason=Removal.SUPERSEDED) == 400
    assert room.total("samovar_snapshot_idle_before_removal_seconds_count") == 1


def test_a_removal_tells_how_often_its_snapshot_was_used(room):
    """Under why it left: what was never asked for again is in the first bucket."""
    room.put(1, 2)
    room.look_up(1, 2, 3)
    room.look_up(1, 2, 4)
    room.put(1, 2, 3)
    room.put(7, session="other")
    room.store.shed(1)
    room.store.clear()
    counts = {
        cause: (
            room.value("samovar_snapshot_entry_hits_count", cause=cause),
            room.value("samovar_snapshot_entry_hits_sum", cause=cause),
        )
        for cause in ("superseded", "evicted", "expired", "cleared")
    }
    assert counts == {"superseded": (1, 2), "evicted": (1, 0), "expired": (0, 0), "cleared": (1, 0)}
    assert room.value("samovar_snapshot_entry_hits_bucket", cause="superseded", le="1.0") == 0
    assert room.value("samovar_snapshot_entry_hits_bucket", cause="superseded", le="2.0") == 1


def test_every_reason_to_leave_has_its_cause():
    """No removal is left out of the histogram."""
    assert set(DEPARTURES) == set(Removal)
    assert set(DEPARTURES.values()) == set(Departure)


def test_a_divergence_tells_how_far_it_was_shared(room):
    """Only diverged misses are in the histogram, with the length of the common prefix."""
    room.look_up(9)
    room.put(1, 2, 3, 4)
    room.look_up(1, 2, 3, 9, 9)
    assert room.value("samovar_snapshot_divergence_tokens_count") == 1
    assert room.value("samovar_snapshot_divergence_tokens_sum") == 3


def test_a_lookup_that_was_not_made_has_no_time(room):
    """Opted out and switched off are outcomes, not fast lookups."""
    room.look_up(1, 2)
    room.put(1)
    room.look_up(1, 2)
    room.store.skip(Miss.OPTED_OUT, prompt_tokens=4)
    off = MetricsRoom(limits(enabled=False))
    off.look_up(1, 2)
    assert room.total("samovar_snapshot_lookups_total") == 3
    assert room.value("samovar_snapshot_lookup_seconds_count") == 2
    assert off.value("samovar_snapshot_lookups_total", outcome=Miss.DISABLED) == 1
    assert off.value("samovar_snapshot_lookup_seconds_count") == 0


def test_a_conversation_on_the_real_scheduler_adds_up(room):
    """Two turns through the scheduler: its events and the tally tell the same hit, tokens and captures."""
    serving = ServingRoom()
    first = make_job([1, 2, 3, 4, 5], boundary=4, id="one", max_tokens=3)
    second = make_job([1, 2, 3, 4, 9, 9, 9], boundary=6, id="two", max_tokens=2)
    serving.run(first)
    serving.run(second)
    room.hear(*serving.events)
    assert room.value("samovar_snapshot_lookups_total", outcome="hit") == 1
    assert room.value("samovar_prompt_tokens_total", source="cached") == 4
    assert room.value("samovar_snapshot_reused_tokens_total") == 4
    assert room.value("samovar_prompt_tokens_total", source="computed") == 5 + 3
    for prefilled, generated in serving.tokens:
        room.step_tokens.record(prefilled, generated)
    assert room.value("samovar_generated_tokens_total") == 5
    assert room.value("samovar_prefill_tokens_total") == 5 + 3
    captures = room.value("samovar_snapshot_capture_seconds_count")
    assert captures == room.total("samovar_snapshot_inserts_total") > 0
    assert room.value("samovar_snapshot_restore_seconds_count") == 1


def test_a_rejection_feeds_no_histogram(room):
    """A snapshot that never entered has no size in the store."""
    room.store.refuse(Rejection.UNSUPPORTED, origin=Origin.SYSTEM, session=None, tokens=7, nbytes=0)
    room.store.insert(bucket=BUCKET, session="s", origin=Origin.SYSTEM, tokens=pack([]), payload=Block(3))
    assert room.total("samovar_snapshot_rejections_total") == 2
    assert room.value("samovar_snapshot_size_bytes_count") == 0
