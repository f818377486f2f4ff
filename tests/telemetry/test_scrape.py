"""What is read at a scrape: the store, its limits, levels, losses."""

import logging
import math
import random
import sys
import threading

import pytest
from prometheus_client import CollectorRegistry

from app.snapshots.sizing import Part, StateSize, for_conversations
from app.telemetry.catalogue import LAST_STEP
from app.telemetry.label_values import Sink
from app.telemetry.scrape import ScrapedSeries, level_readings, limits_reading
from app.vocabulary import Miss, Rejection, Removal
from tests.support.snapshots import limits
from tests.telemetry.metrics_room import Gauges, MetricsRoom, total


def test_a_scrape_says_what_the_store_did_and_holds():
    """Inserts, removals, rejections, lookups and occupancy come out under their own names and labels."""
    room = MetricsRoom(limits(capacity_bytes=100))
    room.put(1, 2, nbytes=10)
    room.put(1, 2, 3, nbytes=20)
    room.put(7, session="other", nbytes=90)
    room.put(8, nbytes=101)
    room.look_up(7, 9, 9, session="other")
    room.look_up(5, 5)
    assert room.value("samovar_snapshot_inserts_total", origin="boundary") == 3
    assert room.value("samovar_snapshot_inserted_bytes_total", origin="boundary") == 120
    assert room.value("samovar_snapshot_removals_total", reason=Removal.SUPERSEDED) == 1
    assert room.value("samovar_snapshot_removed_bytes_total", reason=Removal.LRU_BYTES) == 20
    assert room.value("samovar_snapshot_rejections_total", reason=Rejection.OVERSIZED) == 1
    assert room.value("samovar_snapshot_lookups_total", outcome="hit") == 1
    assert room.value("samovar_snapshot_lookups_total", outcome=Miss.NO_CANDIDATE) == 1
    assert room.value("samovar_snapshot_lookup_tokens_total") == 5
    assert room.value("samovar_snapshot_reused_tokens_total") == 1
    assert room.value("samovar_snapshot_entries", origin="boundary") == 1
    assert room.value("samovar_snapshot_bytes", origin="boundary") == 90
    assert room.value("samovar_snapshot_arrays") == 2


def test_an_eviction_of_the_sessions_own_state_shows():
    """The operator's alarm for a budget that is too small is a series of its own."""
    room = MetricsRoom(limits(capacity_bytes=10))
    room.put(1, nbytes=8)
    room.put(2, nbytes=8)
    assert room.value("samovar_snapshot_self_evictions_total") == 1


def test_the_limits_are_stated_beside_what_they_limit():
    """Capacity, entry limit and time to live are gauges; where nothing expires, the last is +Inf."""
    room = MetricsRoom(limits(capacity_bytes=64, max_entries=3, ttl_seconds=7200))
    assert room.value("samovar_snapshot_capacity_bytes") == 64
    assert room.value("samovar_snapshot_max_entries") == 3
    assert room.value("samovar_snapshot_ttl_seconds") == 7200
    assert MetricsRoom(limits(ttl_seconds=None)).value("samovar_snapshot_ttl_seconds") == math.inf


def test_a_lookup_that_more_memory_would_have_served_counts_for_each_larger_store():
    """What 1.5 times the capacity would hold counts there and beyond; what only a larger one would, there."""
    room = MetricsRoom(limits(capacity_bytes=100))
    for session in "abcd":
        room.put(1, 2, session=session, nbytes=60)
    for session in "dcba":
        room.look_up(1, 2, 3, session=session)
    hits = {
        capacity: room.value("samovar_snapshot_ghost_hits_total", capacity=capacity)
        for capacity in ("1.5x", "2x", "4x")
    }
    assert hits == {"1.5x": 1, "2x": 2, "4x": 3}


def test_how_far_back_the_store_reaches_is_an_age():
    """The time since the least recently used snapshot was used, and 0 in an empty store."""
    room = MetricsRoom()
    assert room.value("samovar_snapshot_oldest_age_seconds") == 0
    room.put(1, 2, session="a")
    room.clock.advance(30)
    room.put(1, 2, session="b")
    room.clock.advance(12)
    assert room.value("samovar_snapshot_oldest_age_seconds") == 42
    room.look_up(1, 2, 3, session="a")
    assert room.value("samovar_snapshot_oldest_age_seconds") == 12


def test_the_right_capacity_stands_beside_the_real_one():
    """What memory has, what is recommended and for how many conversations; 0 until the model is loaded."""
    room = MetricsRoom(limits(capacity_bytes=100))
    names = ("available_bytes", "recommended_bytes", "wanted_sessions")
    assert [room.value(f"samovar_snapshot_{name}") for name in names] == [0, 0, 0]
    start = for_conversations(StateSize((Part(10, 1),)), sessions=3, tokens=6, available_bytes=500)
    room.capacity.open(room.store, start=start, automatic=False)
    assert [room.value(f"samovar_snapshot_{name}") for name in names] == [500, 64, 3]
    for session in "abcdef":
        room.put(1, 2, session=session, nbytes=60)
    assert [room.value(f"samovar_snapshot_{name}") for name in names] == [500, 450, 6]
    assert room.value("samovar_snapshot_capacity_bytes") == 100


def test_while_the_model_is_loaded_limits_are_zero():
    """Before there is a store its limits are there already, and say nothing."""
    registry = CollectorRegistry()
    registry.register(ScrapedSeries([limits_reading(lambda: None)], drops=()))
    for name in ("capacity_bytes", "max_entries", "ttl_seconds"):
        assert registry.get_sample_value(f"samovar_snapshot_{name}") == 0


def test_levels_are_read_at_each_scrape():
    """Running, waiting, last step and device memory are those of now; an unknown memory kind is absent."""
    gauges = Gauges()
    room = MetricsRoom(gauges=gauges)
    room.scrape()
    gauges.now_running, gauges.now_waiting, gauges.last_step = 3, 5, 1234.5
    gauges.limit_running, gauges.limit_waiting = 4, 64
    gauges.memory = {"active": 7, "peak": 9, "nonsense": 1}
    assert room.value("samovar_requests_running") == 3
    assert room.value("samovar_requests_waiting") == 5
    assert room.value("samovar_requests_max_running") == 4
    assert room.value("samovar_requests_max_waiting") == 64
    assert room.value("samovar_engine_last_step_timestamp_seconds") == 1234.5
    assert room.value("samovar_device_memory_bytes", kind="active") == 7
    memory = {labels for name, labels in room.scrape() if name == "samovar_device_memory_bytes"}
    assert memory == {frozenset({("kind", "active")}), frozenset({("kind", "peak")})}


class Broken(Gauges):
    def waiting(self) -> int:
        raise RuntimeError("the engine is gone")


def test_a_level_that_cannot_be_read_costs_only_itself(caplog):
    """The scrape succeeds without that series; the loss is counted each time and logged once."""
    room = MetricsRoom(gauges=Broken(now_running=2))
    with caplog.at_level(logging.ERROR):
        first, second = room.scrape(), room.scrape()
    assert ("samovar_requests_waiting", frozenset()) not in first
    assert first["samovar_requests_running", frozenset()] == 2
    assert first["samovar_telemetry_dropped_total", frozenset({("sink", "metrics")})] == 1
    assert second["samovar_telemetry_dropped_total", frozenset({("sink", "metrics")})] == 2
    (record,) = caplog.records
    assert "samovar_requests_waiting" in record.getMessage()
    assert record.exc_info is not None


def test_what_sinks_lost_is_added_up_by_sink():
    """A listener's failures, lost spans and unknown listeners each count under one bounded label value."""
    registry = CollectorRegistry()
    registry.register(
        ScrapedSeries(
            (), drops=(lambda: {Sink.TRACES: 2, "stranger": 5}, lambda: {Sink.TRACES: 1, Sink.LOGS: 4})
        )
    )
    lost = {
        sink: registry.get_sample_value("samovar_telemetry_dropped_total", {"sink": sink})
        for sink in ("tally", "metrics", "traces", "logs", "other")
    }
    assert lost == {"tally": 0, "metrics": 0, "traces": 3, "logs": 4, "other": 5}


def test_a_name_cannot_be_taken_twice():
    """A collector describes its series, so the registry refuses a second one with the same names."""
    registry = CollectorRegistry()
    registry.register(ScrapedSeries(level_readings(Gauges()), drops=()))
    with pytest.raises(ValueError, match=LAST_STEP.name):
        registry.register(ScrapedSeries(level_readings(Gauges()), drops=()))


def churn(room: MetricsRoom, seed: int, stop: threading.Event) -> None:
    """Use the store in every way there is until told to stop."""
    draw = random.Random(seed)
    while not stop.is_set():
        tokens = [draw.randrange(3) for _ in range(draw.randrange(1, 8))]
        session = draw.choice("abc")
        match draw.randrange(10):
            case 0:
                room.store.shed(draw.randrange(50))
            case 1:
                room.store.clear()
            case 2 | 3:
                room.look_up(*tokens, session=session)
            case _:
                room.put(*tokens, session=session, nbytes=draw.randrange(1, 120))


@pytest.fixture
def eager_switching():
    """Threads take turns far more often than usual, so that a torn reading would show."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def test_every_scrape_balances_while_the_store_is_busy(eager_switching):
    """Inserts minus removals are the live entries, in bytes as well, in each scrape under four writers."""
    room = MetricsRoom(limits(capacity_bytes=500, max_entries=20))
    stop = threading.Event()
    writers = [threading.Thread(target=churn, args=(room, seed, stop)) for seed in range(4)]
    for writer in writers:
        writer.start()
    try:
        scrapes = [room.scrape() for _ in range(60)]
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    for now in [*scrapes, room.scrape()]:
        inserts = total(now, "samovar_snapshot_inserts_total")
        assert inserts - total(now, "samovar_snapshot_removals_total") == total(
            now, "samovar_snapshot_entries"
        )
        nbytes = total(now, "samovar_snapshot_inserted_bytes_total")
        assert nbytes - total(now, "samovar_snapshot_removed_bytes_total") == total(
            now, "samovar_snapshot_bytes"
        )
    course = [total(now, "samovar_snapshot_inserts_total") for now in scrapes]
    assert course == sorted(course)
    assert course[0] < course[-1], "the store stood still, so nothing was shown"
