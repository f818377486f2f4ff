"""Spans against the tally, over random lives of a real store."""

import random
from collections import Counter

import pytest

from app.telemetry.spans import SUMMARY_SPAN
from tests.telemetry.spans_room import HASH_SESSION, SpansRoom, attributes
from tests.telemetry.store_life import busy_limits, random_life


@pytest.mark.parametrize("seed", range(4))
def test_spans_and_counters_tell_the_same_story(seed):
    """Over a random life of a store, spans by name and reason are exactly what the tally counted."""
    room = SpansRoom(busy_limits())
    random_life(room, random.Random(seed), 2500)
    counted = room.tally.read()
    removals: Counter[object] = Counter()
    lookups: Counter[object] = Counter()
    rejections: Counter[object] = Counter()
    inserts: Counter[object] = Counter()
    self_evictions = summaries = 0
    for span in room.take():
        facts = attributes(span)
        match span.name:
            case "snapshot.insert" if facts["outcome"] == "inserted":
                inserts[facts["origin"]] += 1
            case "snapshot.reject":
                rejections[facts["reason"]] += 1
            case "snapshot.lookup":
                lookups[facts["outcome"]] += 1
            case name if name == SUMMARY_SPAN:
                summaries += 1
                self_evictions += int(str(facts["self_evictions"]))
                for key, count in facts.items():
                    if key.startswith("removals."):
                        removals[key.removeprefix("removals.")] += int(str(count))
            case "snapshot.insert" | "snapshot.sweep" | "snapshot.clear" | "snapshot.shed":
                pass
            case _:
                removals[facts["reason"]] += 1
                self_evictions += facts["self_eviction"] is True
    assert inserts == Counter({str(key): n for key, n in counted.inserts.items() if n})
    assert removals == Counter({str(key): n for key, n in counted.removals.items() if n})
    assert rejections == Counter({str(key): n for key, n in counted.rejections.items() if n})
    assert lookups == Counter({key: n for key, n in counted.lookups.items() if n})
    assert self_evictions == counted.self_evictions
    assert summaries > 0, "no call removed enough for a summary, so that case was not compared"
    assert len(removals) >= 6, "the life was too quiet to compare removals"


def test_no_span_holds_a_session_in_clear():
    """The client's key appears nowhere in what is exported, and equal sessions have equal hashes."""
    room = SpansRoom()
    room.put(1, 2, session="secret-key-of-alice")
    room.put(1, 2, 3, session="secret-key-of-alice")
    room.look_up(1, 2, 3, 4, session="secret-key-of-alice")
    room.store.clear()
    spans = room.take()
    assert not any("secret" in span.to_json() for span in spans)
    hashes = {attributes(span).get("session.hash") for span in spans if span.name != "snapshot.clear"}
    assert hashes == {HASH_SESSION("secret-key-of-alice")}
