"""The tally: every event counted once, every count there from the start, every reading consistent."""

import json

from app.events import CaptureDeclined
from app.snapshots.stats import HIT, Tally, stats_payload
from app.vocabulary import Miss, Origin, Rejection, Removal
from tests.support.snapshots import Heard, limits

TURN = [1, 2, 3, 4]


def test_every_count_is_there_before_anything_happened() -> None:
    """All origins, reasons and outcomes stand at zero from the first reading."""
    reading = Tally().read()

    for by_origin in (reading.inserts, reading.inserted_bytes):
        assert by_origin == dict.fromkeys(Origin, 0)
    for by_reason in (reading.removals, reading.removed_bytes):
        assert by_reason == dict.fromkeys(Removal, 0)
    assert reading.rejections == dict.fromkeys(Rejection, 0)
    assert reading.lookups == dict.fromkeys([HIT, *Miss], 0)
    assert (reading.seq, reading.self_evictions, reading.lookup_tokens, reading.reused_tokens) == (0, 0, 0, 0)
    assert reading.occupancy.by_origin == dict.fromkeys(Origin, (0, 0))


def test_each_event_is_counted_once_under_its_own_name() -> None:
    """Inserts, removals, rejections, lookups and their tokens add up to what was done."""
    heard = Heard(limits(capacity_bytes=100, min_prefix_tokens=2))
    heard.put(TURN, nbytes=10)
    heard.put([*TURN, 5], nbytes=20)
    heard.put([*TURN, 5], nbytes=30)
    heard.put([9], nbytes=1)
    heard.put([9, 9], nbytes=101)
    heard.use([*TURN, 5, 6, 7])
    heard.use([8, 8, 8])
    heard.store.skip(Miss.OPTED_OUT, prompt_tokens=1_000)
    reading = heard.tally.read()

    assert reading.inserts[Origin.BOUNDARY] == 3
    assert reading.inserted_bytes[Origin.BOUNDARY] == 60
    assert {reason: n for reason, n in reading.removals.items() if n} == {
        Removal.SUPERSEDED: 1,
        Removal.REPLACED: 1,
    }
    assert reading.removed_bytes[Removal.SUPERSEDED] == 10
    assert reading.removed_bytes[Removal.REPLACED] == 20
    assert {reason: n for reason, n in reading.rejections.items() if n} == {
        Rejection.TOO_SHORT: 1,
        Rejection.OVERSIZED: 1,
    }
    assert {outcome: n for outcome, n in reading.lookups.items() if n} == {
        HIT: 1,
        Miss.NO_CANDIDATE: 1,
        Miss.OPTED_OUT: 1,
    }
    assert (reading.lookup_tokens, reading.reused_tokens) == (7 + 3, 5)
    assert (reading.occupancy.entries, reading.occupancy.nbytes) == (1, 30)
    assert reading.seq == heard.transactions[-1].seq


def test_a_reading_does_not_move() -> None:
    """What was read stays as it was while the counting goes on."""
    heard = Heard()
    before = heard.tally.read()
    heard.put(TURN)

    assert before.inserts[Origin.BOUNDARY] == 0
    assert heard.tally.read().inserts[Origin.BOUNDARY] == 1


def test_other_events_are_not_the_store_s() -> None:
    """An event of the engine leaves every count as it is."""
    tally = Tally()
    before = tally.read()
    tally(CaptureDeclined("no boundary", None))

    assert tally.read() == before


def test_the_statistics_of_an_idle_store() -> None:
    """Without entries and lookups every ratio is zero, and the configured limits show."""
    payload = stats_payload(
        Tally().read(), limits(capacity_bytes=3_072, max_entries=2, ttl_seconds=None), now=5.0
    )

    assert payload["enabled"] is True
    assert (payload["snapshot_capacity_bytes"], payload["snapshot_max_entries"]) == (3_072, 2)
    assert payload["snapshot_ttl_seconds"] is None
    assert payload["snapshot_bytes_per_entry"] == 0
    assert payload["snapshot_hit_rate"] == 0.0


def test_the_statistics_route_tells_what_was_counted() -> None:
    """The flat keys and the maps are the tally's numbers, and plain JSON."""
    heard = Heard(limits(max_entries=2, ttl_seconds=60, min_prefix_tokens=2))
    heard.put(TURN, nbytes=1_000)
    heard.put([7, 7], nbytes=1_024, session="other", origin=Origin.COMPLETION)
    heard.put([8, 8], nbytes=2_048, origin=Origin.SYSTEM)
    heard.use([8, 8, 8])
    heard.use([5, 5, 5])
    heard.store.skip(Miss.OPTED_OUT, prompt_tokens=9)
    payload = json.loads(json.dumps(stats_payload(heard.tally.read(), heard.limits, now=heard.clock() + 3)))

    assert payload == {
        "enabled": True,
        "snapshot_entries": 2,
        "snapshot_bytes": 3_072,
        "snapshot_bytes_per_entry": 1_536,
        "snapshot_arrays": 2,
        "snapshot_oldest_age_seconds": 3.0,
        "snapshot_capacity_bytes": 1_000_000,
        "snapshot_max_entries": 2,
        "snapshot_max_arrays": None,
        "snapshot_ttl_seconds": 60,
        "snapshot_min_prefix_tokens": 2,
        "snapshot_hits": 1,
        "snapshot_lookups": 2,
        "snapshot_hit_rate": 0.5,
        "snapshot_lookup_tokens": 6,
        "snapshot_reused_tokens": 2,
        "snapshot_inserts": 3,
        "snapshot_evictions_lru": 1,
        "snapshot_evictions_ttl": 0,
        "snapshot_supersedes": 0,
        "snapshot_replaced": 0,
        "snapshot_self_evictions": 0,
        "snapshot_ghost_hits_by_capacity": {"1.5x": 0, "2x": 0, "4x": 0},
        "snapshot_rejections_oversized": 0,
        "snapshot_removals_by_reason": {
            **dict.fromkeys((reason.value for reason in Removal), 0),
            "lru_entries": 1,
        },
        "snapshot_removed_bytes_by_reason": {
            **dict.fromkeys((reason.value for reason in Removal), 0),
            "lru_entries": 1_000,
        },
        "snapshot_inserts_by_origin": {"boundary": 1, "completion": 1, "system": 1},
        "snapshot_rejections_by_reason": dict.fromkeys((reason.value for reason in Rejection), 0),
        "snapshot_lookups_by_outcome": {
            **dict.fromkeys((miss.value for miss in Miss), 0),
            "hit": 1,
            "no_candidate": 1,
            "opted_out": 1,
        },
        "snapshot_entries_by_origin": {"boundary": 0, "completion": 1, "system": 1},
        "snapshot_bytes_by_origin": {"boundary": 0, "completion": 1_024, "system": 2_048},
    }
