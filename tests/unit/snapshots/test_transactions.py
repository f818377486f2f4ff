"""What the store says: complete, numbered without gaps, in order, and outside its lock."""

from itertools import count

import pytest

from app.events import Demand, Event, LookupMissed, Occupancy, SnapshotRemoved, TraceRef, Transaction
from app.snapshots.entry import pack
from app.snapshots.outbox import Outbox
from app.snapshots.store import SnapshotStore
from app.vocabulary import Miss, Origin, StoreCall
from tests.support.snapshots import BUCKET, Block, Heard, limits

CAUSE = TraceRef(trace_id=1, span_id=2, sampled=True)


def test_transactions_are_numbered_from_one_without_gaps() -> None:
    """A call that did something has the next number; one that did nothing has none and is not heard."""
    heard = Heard(limits(ttl_seconds=60))
    heard.store.sweep()
    heard.put([1, 1])
    heard.find([1, 1, 1])
    heard.store.clear()
    heard.store.clear()
    heard.store.skip(Miss.OPTED_OUT, prompt_tokens=1)
    heard.store.shed(1)

    assert [(t.seq, t.call) for t in heard.transactions] == [
        (1, StoreCall.INSERT),
        (2, StoreCall.CLEAR),
        (3, StoreCall.LOOKUP),
    ]


def test_a_transaction_says_what_the_store_holds_after_it() -> None:
    """The occupancy told with the events is the one they led to."""
    heard = Heard()
    heard.put([1, 1], nbytes=5, arrays=2)
    heard.put([1, 1, 1], nbytes=7, arrays=3, origin=Origin.COMPLETION)

    assert [t.occupancy for t in heard.transactions] == [
        Occupancy(
            entries=1,
            nbytes=5,
            arrays=2,
            by_origin={Origin.BOUNDARY: (1, 5), Origin.COMPLETION: (0, 0), Origin.SYSTEM: (0, 0)},
            oldest_used=heard.clock(),
        ),
        Occupancy(
            entries=2,
            nbytes=12,
            arrays=5,
            by_origin={Origin.BOUNDARY: (1, 5), Origin.COMPLETION: (1, 7), Origin.SYSTEM: (0, 0)},
            oldest_used=heard.clock(),
        ),
    ]
    assert heard.transactions[-1].occupancy == heard.store.occupancy()


def test_a_call_carries_the_trace_that_caused_it() -> None:
    """Insert, hit, miss, skip, refuse and shed belong to their request's trace; sweeps and resets to none."""
    heard = Heard(limits(ttl_seconds=60, max_entries=1))
    heard.put([1, 1], cause=CAUSE)
    found = heard.find([1, 1, 1])
    heard.store.hit(found, found.candidates[0], cause=CAUSE)
    heard.store.miss(heard.find([2, 2]), cause=CAUSE)
    heard.store.skip(Miss.OPTED_OUT, prompt_tokens=1, cause=CAUSE)
    heard.store.shed(1, cause=CAUSE)
    assert [t.cause for t in heard.transactions] == [CAUSE] * 5

    removed = heard.events[-1]
    assert isinstance(removed, SnapshotRemoved)
    assert removed.inserted_by == CAUSE

    heard.put([1, 1], cause=CAUSE)
    heard.clock.advance(60)
    heard.store.sweep()
    assert heard.transactions[-1].cause is None


def test_a_lookup_lasts_as_long_as_its_question() -> None:
    """The time spent restoring, between `find` and `hit`, is not the store's."""
    ticks = count()
    said: list[Transaction] = []

    def hear(event: Event) -> None:
        assert isinstance(event, Transaction)
        said.append(event)

    store: SnapshotStore[Block] = SnapshotStore(limits(), clock=lambda: float(next(ticks)), emit=hear)
    found = store.find(bucket=BUCKET, session="s", tokens=pack([1, 2]))
    for _ in range(10):
        next(ticks)
    store.miss(found)
    store.insert(bucket=BUCKET, session="s", origin=Origin.BOUNDARY, tokens=pack([1]), payload=Block())

    lookup, insert = said
    assert (lookup.started, lookup.ended) == (found.started, found.ended) == (0.0, 1.0)
    assert insert.ended - insert.started == 1.0


def test_a_listener_may_call_the_store() -> None:
    """What a listener does in the store is told after what it was just told, and never blocks."""
    heard = Heard()
    answers: list[int] = []
    inner = heard.store._outbox._emit

    def meddle(event: Event) -> None:
        assert isinstance(event, Transaction)
        if event.call is StoreCall.INSERT:
            answers.append(heard.store.clear().entries)
            answers.append(heard.store.occupancy().entries)
        inner(event)

    heard.store._outbox._emit = meddle
    heard.put([1, 1])

    assert answers == [1, 0]
    assert [(t.seq, t.call) for t in heard.transactions] == [(1, StoreCall.INSERT), (2, StoreCall.CLEAR)]


def test_a_listener_that_raises_loses_its_event_only() -> None:
    """The next events are delivered, in order, with the next call."""
    seen: list[int] = []

    def stumble(event: Event) -> None:
        assert isinstance(event, Transaction)
        if event.seq == 1:
            raise ValueError("listener")
        seen.append(event.seq)

    outbox = Outbox(stumble)
    for _ in range(3):
        outbox.post(
            call=StoreCall.SWEEP,
            cause=None,
            started=0.0,
            ended=0.0,
            events=[LookupMissed(Miss.EMPTY, 1, 0, 0)],
            occupancy=Occupancy(0, 0, 0, {}),
            demand=Demand(),
        )
    with pytest.raises(ValueError, match="listener"):
        outbox.deliver()
    outbox.deliver()

    assert seen == [2, 3]


def test_what_was_done_before_a_payload_failed_is_told() -> None:
    """A question that raises does not swallow the removals made before it: the books stay right."""
    heard = Heard(limits(ttl_seconds=60))
    heard.put([1, 1], session="dead")
    heard.clock.advance(30)
    heard.put([1, 2, 3])

    class Failing(Block):
        def can_truncate_to(self, n_tokens: int) -> bool:
            if n_tokens == heard.limits.min_prefix_tokens:
                return False
            raise ValueError(n_tokens)

    tokens = pack([1, 2, 4])
    heard.store.insert(bucket=BUCKET, session="s", origin=Origin.BOUNDARY, tokens=tokens, payload=Failing())
    heard.clock.advance(30)
    with pytest.raises(ValueError, match="2"):
        heard.find([1, 2, 9])

    assert heard.held == [2, 3]
    reading = heard.tally.read()
    assert sum(reading.inserts.values()) - sum(reading.removals.values()) == 2
