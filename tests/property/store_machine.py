"""Drives a store and the oracle through the same random life and compares them whole after every step."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from app.events import Demand, Event, LookupHit, LookupMissed, TraceRef, Transaction
from app.snapshots.entry import Payload, pack
from app.snapshots.limits import Limits
from app.snapshots.lookup import Found
from app.snapshots.stats import Tally
from app.snapshots.store import SnapshotStore
from app.vocabulary import Miss, Origin, Rejection
from tests.property.lives import (
    CAUSES,
    HERE,
    LIMITS,
    LIVED,
    NARROW,
    PAYLOADS,
    PLACES,
    QUOTAS,
    TAILS,
    TENANTS,
    TOKEN,
    TOKENS,
    TURNS,
    Place,
)
from tests.property.oracle import Oracle
from tests.property.oracle_lookup import Answer
from tests.property.oracle_rows import Tokens
from tests.property.soundness import check_ghosts, check_index, check_lines, check_shares, check_totals
from tests.support.clock import ManualClock

Lookup = tuple[Found[Payload], Answer]


def without_ghosts(said: Transaction) -> Transaction:
    """What is said of what is held; tests/property/test_ghosts.py asks about what is not."""
    events = tuple(
        replace(event, growth=None) if isinstance(event, LookupHit | LookupMissed) else event
        for event in said.events
    )
    return replace(said, events=events, demand=Demand())


def assert_tenants_add_up(tally: Tally) -> None:
    """What each tenant is told of itself is, over all of them, what is told of the store."""
    reading = tally.read()
    parts = [tally.read(tenant) for tenant in ("acme", "other")]
    for counts in ("inserts", "removals", "rejections", "lookups", "inserted_bytes", "removed_bytes"):
        whole = getattr(reading, counts)
        assert whole == {name: sum(getattr(part, counts)[name] for part in parts) for name in whole}
    for total in ("entries", "nbytes", "arrays"):
        whole = getattr(reading.occupancy, total)
        assert whole == sum(getattr(part.occupancy, total) for part in parts)
    assert reading.reused_tokens == sum(part.reused_tokens for part in parts)


class StoreMachine(RuleBasedStateMachine):
    """`store_type` and its `limits_type` are what is tested; the rules are the oracle's."""

    store_type: ClassVar[type[SnapshotStore[Any]]] = SnapshotStore
    limits_type: ClassVar[type[Limits]] = Limits
    quotas: ClassVar[st.SearchStrategy[dict[str, int]]] = st.just({})
    choices: ClassVar[Mapping[str, Sequence[Any]]] = {}
    """What some of the limits are drawn from instead: lives in which one law matters often."""

    @initialize(data=st.data())
    def open(self, data: st.DataObject) -> None:
        drawn = {name: st.sampled_from(values) for name, values in {**LIMITS, **self.choices}.items()}
        limits = data.draw(st.builds(Limits, **drawn), label="limits")
        self.clock = ManualClock()
        self.heard: list[Transaction] = []
        self.tally = Tally()
        self.limits = limits
        self.oracle = Oracle(limits, self.clock, quotas=dict(data.draw(self.quotas, label="quotas")))
        self.store = self.store_type(
            self.limits_type(**asdict(limits)),
            clock=self.clock,
            emit=self.hear,
            quota=self.oracle.quotas.get,
        )
        self.narrow = data.draw(NARROW, label="one conversation")
        self.origins = data.draw(LIVED, label="origins")
        self.open_lookups: list[Lookup] = []
        for place, tokens in data.draw(st.lists(st.tuples(PLACES, TOKENS), max_size=4), label="begin with"):
            self.insert_at(self.at(place), tokens, data)

    def at(self, place: Place) -> Place:
        """Where something happens in this life."""
        return HERE if self.narrow else place

    def hear(self, event: Event) -> None:
        assert isinstance(event, Transaction)
        self.heard.append(without_ghosts(event))
        self.tally(event)
        # Heard between any two calls, not only at rest: the books agree at every instant.
        reading = self.tally.read()
        held = reading.occupancy
        assert held.entries == sum(reading.inserts.values()) - sum(reading.removals.values())
        assert held.nbytes == sum(reading.inserted_bytes.values()) - sum(reading.removed_bytes.values())
        assert_tenants_add_up(self.tally)

    # Token vectors: anything; or something stored, as it is, cut short, continued, or gone another way.

    def known(self, data: st.DataObject) -> tuple[Place, Tokens]:
        row = data.draw(st.sampled_from(self.oracle.rows), label="of")
        cut = data.draw(st.sampled_from([0, 0, 1, 2]), label="cut by")
        tokens = row.tokens[: len(row.tokens) - cut] + data.draw(TAILS, label="continued by")
        return (row.bucket, row.session), tokens

    def insert_at(
        self,
        place: Place,
        tokens: Tokens,
        data: st.DataObject,
        origin: Origin | None = None,
        tentative: bool | None = None,
    ) -> None:
        origin = origin or data.draw(st.sampled_from(self.origins), label="origin")
        payload = data.draw(PAYLOADS, label="payload")
        cause = data.draw(CAUSES, label="cause")
        if tentative is None:
            tentative = data.draw(st.sampled_from([False, False, True]), label="tentative")
        said = self.store.insert(
            bucket=place[0],
            session=place[1],
            origin=origin,
            tokens=pack(tokens),
            payload=payload,
            tentative=tentative,
            cause=cause,
        )
        assert said == self.oracle.insert(
            *place, origin, tokens, payload=payload, cause=cause, tentative=tentative
        )

    def look_at(self, place: Place, tokens: Tokens) -> None:
        found = self.store.find(bucket=place[0], session=place[1], tokens=pack(tokens))
        answer = self.oracle.find(*place, tokens)
        assert [(c.entry, c.use_tokens, c.last_used) for c in found.candidates] == list(answer.candidates)
        assert found.reason == answer.reason
        assert found.common_prefix_tokens == answer.common_prefix_tokens
        assert found.prompt_tokens == answer.prompt_tokens
        self.open_lookups.append((found, answer))

    def conclude_last(self, data: st.DataObject, cause: TraceRef | None) -> None:
        found, answer = self.open_lookups.pop()
        failed = data.draw(st.integers(0, len(found.candidates)), label="failed restores")
        if failed < len(found.candidates):
            self.store.hit(found, found.candidates[failed], failed_restores=failed, cause=cause)
            self.oracle.hit(answer, failed, failed, cause)
        else:
            said = self.store.miss(found, failed_restores=failed, cause=cause)
            assert said == self.oracle.miss(answer, failed, cause)

    @rule(place=PLACES, tokens=TOKENS, data=st.data())
    def insert(self, place: Place, tokens: Tokens, data: st.DataObject) -> None:
        self.insert_at(self.at(place), tokens, data)

    @precondition(lambda self: self.oracle.rows)
    @rule(data=st.data())
    def insert_near_known(self, data: st.DataObject) -> None:
        place, tokens = self.known(data)
        self.insert_at(place, tokens, data)

    @rule(place=PLACES, tokens=TOKENS)
    def find(self, place: Place, tokens: Tokens) -> None:
        self.look_at(self.at(place), tokens)

    @precondition(lambda self: self.oracle.rows)
    @rule(data=st.data())
    def find_near_known(self, data: st.DataObject) -> None:
        place, tokens = self.known(data)
        self.look_at(place, tokens)

    @precondition(lambda self: self.oracle.rows)
    @rule(place=PLACES, data=st.data())
    def find_known_elsewhere(self, place: Place, data: st.DataObject) -> None:
        self.look_at(place, self.known(data)[1])

    @precondition(lambda self: self.oracle.rows)
    @rule(data=st.data())
    def reuse_known(self, data: st.DataObject) -> None:
        self.look_at(*self.known(data))
        self.conclude_last(data, None)

    @precondition(lambda self: self.oracle.rows)
    @rule(reply=TAILS, data=st.data())
    def converse(self, reply: Tokens, data: st.DataObject) -> None:
        """A turn: reuse what there is, store the history; others come between; store the reply."""
        place, tokens = self.known(data)
        self.look_at(place, tokens)
        self.conclude_last(data, None)
        self.insert_at(place, tokens, data, Origin.BOUNDARY, tentative=False)
        for other in data.draw(st.lists(PLACES, max_size=2), label="others"):
            self.insert_at(self.at(other), data.draw(TOKENS), data)
        self.insert_at(place, tokens + reply, data, Origin.COMPLETION, tentative=False)

    @precondition(lambda self: self.oracle.rows)
    @rule(reply=TAILS, question=TAILS, data=st.data())
    def foretell(self, reply: Tokens, question: Tokens, data: st.DataObject) -> None:
        """A turn is prepared from its history and a guess at the reply, and comes true or does not."""
        place, tokens = self.known(data)
        self.insert_at(place, tokens, data, Origin.BOUNDARY, tentative=False)
        self.insert_at(place, tokens + reply, data, Origin.BOUNDARY, tentative=True)
        self.look_at(place, tokens + reply + question)
        self.conclude_last(data, None)

    @rule(place=PLACES, tokens=TOKENS, steps=st.lists(TOKEN, min_size=2, max_size=4), data=st.data())
    def go_on_and_back(self, place: Place, tokens: Tokens, steps: list[int], data: st.DataObject) -> None:
        """Turns of one conversation, each a while after the last; then one of its messages is edited."""
        place = self.at(place)
        for step in steps:
            tokens = (*tokens, step)
            self.clock.advance(data.draw(st.sampled_from([0.0, 1.0]), label="after"))
            self.insert_at(place, tokens, data, Origin.BOUNDARY, tentative=False)
        back = data.draw(st.integers(0, len(steps)), label="back by")
        self.look_at(place, (*tokens[: len(tokens) - back], data.draw(TOKEN, label="edited to")))
        self.conclude_last(data, None)

    @rule(place=PLACES, tokens=TOKENS, turns=TURNS, data=st.data())
    def talk(self, place: Place, tokens: Tokens, turns: list[tuple[int, int]], data: st.DataObject) -> None:
        """A conversation from its system prompt on: each turn's history and its reply are stored."""
        place = self.at(place)
        self.insert_at(place, tokens, data, Origin.SYSTEM, tentative=False)
        for said, reply in turns:
            tokens = (*tokens, said)
            self.look_at(place, tokens)
            self.conclude_last(data, None)
            self.insert_at(place, tokens, data, Origin.BOUNDARY, tentative=False)
            tokens = (*tokens, reply)
            self.insert_at(place, tokens, data, Origin.COMPLETION, tentative=False)

    @precondition(lambda self: self.oracle.rows)
    @rule(place=PLACES, data=st.data())
    def ask_for_anchor(self, place: Place, data: st.DataObject) -> None:
        known, tokens = self.known(data)
        for bucket in (known[0], place[0]):
            asked = self.store.has_anchor(bucket=bucket, tokens=pack(tokens))
            assert asked == self.oracle.has_anchor(bucket, tokens)

    # A lookup may be concluded long after it was made, and after its entries are gone.

    @precondition(lambda self: self.open_lookups)
    @rule(data=st.data(), cause=CAUSES)
    def conclude(self, data: st.DataObject, cause: TraceRef | None) -> None:
        self.conclude_last(data, cause)

    @precondition(lambda self: self.oracle.rows)
    @rule(
        refused=st.none() | st.sampled_from([Rejection.UNSUPPORTED, Rejection.LOW_MEMORY]),
        tenant=TENANTS,
        cause=CAUSES,
    )
    def tell(self, refused: Rejection | None, tenant: str, cause: TraceRef | None) -> None:
        """What was decided elsewhere is only counted here."""
        if refused is None:
            self.store.skip(Miss.OPTED_OUT, prompt_tokens=9, tenant=tenant, cause=cause)
            self.oracle.skip(Miss.OPTED_OUT, 9, tenant, cause)
        else:
            self.store.refuse(
                refused,
                origin=Origin.COMPLETION,
                session="ann",
                tokens=7,
                nbytes=9,
                tenant=tenant,
                cause=cause,
            )
            self.oracle.refuse(refused, Origin.COMPLETION, "ann", size=(7, 9), tenant=tenant, cause=cause)

    @rule(seconds=st.sampled_from([1.0, 1.0, 3.0, 4.0]))
    def let_time_pass(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule()
    def sweep(self) -> None:
        assert self.store.sweep() == self.oracle.sweep()

    @precondition(lambda self: self.oracle.rows)
    @rule(nbytes=st.sampled_from([0, 1, 8, 25]), cause=CAUSES)
    def shed(self, nbytes: int, cause: TraceRef | None) -> None:
        assert self.store.shed(nbytes, cause=cause) == self.oracle.shed(nbytes, cause)

    @precondition(lambda self: len(self.oracle.rows) > 4)
    @rule()
    def clear(self) -> None:
        assert tuple(self.store.clear()) == self.oracle.clear(None)

    @invariant()
    def they_agree(self) -> None:
        assert self.heard == self.oracle.transactions
        entries = list(self.store._held)
        check_lines(self.store._held)
        vectors = check_index(self.store._held.index, entries)
        assert [
            (e.facts, e.bucket, vectors[e.facts.id], e.created, e.last_used, e.hits, e.inserted_by)
            for e in entries
        ] == [
            (r.facts(), r.bucket, pack(r.tokens), r.created, r.last_used, r.hits, r.inserted_by)
            for r in self.oracle.leaving()
        ]
        assert [(e.standing.name, e.tentative) for e in entries] == [
            (r.standing(), r.tentative) for r in self.oracle.leaving()
        ]
        assert all(e.payload is r.payload for e, r in zip(entries, self.oracle.leaving(), strict=True))
        check_totals(self.store, self.limits)
        check_shares(self.store._held)
        check_ghosts(self.store)


class TenantMachine(StoreMachine):
    """The same lives with quotas, and with what can be done to one tenant alone."""

    quotas = QUOTAS

    @precondition(lambda self: len(self.oracle.rows) > 2)
    @rule(tenant=TENANTS)
    def clear_tenant(self, tenant: str) -> None:
        assert tuple(self.store.clear(tenant)) == self.oracle.clear(tenant)

    @precondition(lambda self: len(self.oracle.rows) > 2)
    @rule(tenant=TENANTS, session=st.sampled_from(["ann", "bob"]))
    def forget_session(self, tenant: str, session: str) -> None:
        gone = self.oracle.forget_session(tenant, session)
        assert tuple(self.store.forget_session(tenant, session)) == gone

    @rule(quotas=QUOTAS)
    def give_other_quotas(self, quotas: dict[str, int]) -> None:
        """They hold from the next insert on; until then nobody loses anything."""
        self.oracle.quotas.clear()
        self.oracle.quotas.update(quotas)
