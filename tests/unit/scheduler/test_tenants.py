"""Tenants beside each other on one engine: the same prompts and sessions, and nothing of one for another."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.events import SnapshotEvent, Transaction
from app.scheduler.job import Boundary, Job, Started
from app.snapshots.entry import Bucket, pack
from app.snapshots.stats import tenant_of
from app.vocabulary import Miss, Origin
from tests.support.hash_chain import HashChainDecoder, reply_to
from tests.support.jobs import make_job
from tests.support.serving_room import ServingRoom

SYSTEM = [*range(40)]
HISTORY = [*SYSTEM, *range(100, 160)]


def bucket(tenant: str) -> Bucket:
    return Bucket(model="tiny", cache_signature="chain", tenant=tenant)


def turn(tenant: str, tokens: list[int], name: str, session: str = "chat") -> Job:
    """A turn with a system prompt's anchor and a boundary at its history's end."""
    return Job(
        id=make_job(tokens, id=f"{name} of {tenant}").id,
        tokens=(*tokens, 900),
        packed=pack([*tokens, 900]),
        boundaries=(Boundary(Origin.SYSTEM, len(SYSTEM)), Boundary(Origin.BOUNDARY, len(tokens))),
        bucket=bucket(tenant),
        session=session,
        max_tokens=3,
    )


def steps_until_first_word(room: ServingRoom, job: Job) -> int:
    """How many steps pass before a job that is offered now has left the queue."""
    room.admission.offer(job)
    for steps in range(1, 1_000):
        room.step()
        if any(isinstance(delta, Started) for delta in room.deltas[job.id]):
            return steps
    raise AssertionError("it never started")


@pytest.mark.parametrize("truncatable", [False, True])
def test_a_tenant_starts_cold_beside_what_another_has_stored(truncatable: bool) -> None:
    """Neither a session of the same name, nor the same system prompt, nor the very same prompt is found."""
    room = ServingRoom(HashChainDecoder(truncatable=truncatable))
    room.run(turn("ann", HISTORY, "first"))
    computed = room.decoder.computed_tokens
    stranger = turn("bob", HISTORY, "first")
    room.run(stranger)
    assert room.started(stranger) == Started(0, Miss.EMPTY)
    assert room.decoder.computed_tokens - computed == len(stranger.tokens)
    again = turn("ann", [*HISTORY, *range(200, 210)], "second")
    room.run(again)
    assert room.started(again).cached_tokens > 0


@pytest.mark.parametrize("truncatable", [False, True])
def test_nobody_waits_for_the_prefill_of_another_tenant(truncatable: bool) -> None:
    """Of one tenant, the second request of a shared prefix waits; of two, both start in the same step.

    So the time to a first token tells nothing of what others ask.
    """
    alike = {}
    for other in ("ann", "bob"):
        room = ServingRoom(HashChainDecoder(truncatable=truncatable))
        room.admission.offer(turn("ann", HISTORY, "first"))
        alike[other] = steps_until_first_word(room, turn(other, HISTORY, "second"))
    alone = steps_until_first_word(
        ServingRoom(HashChainDecoder(truncatable=truncatable)), turn("bob", HISTORY, "second")
    )
    assert alike["bob"] == alone
    assert alike["ann"] > alone


def test_a_warm_up_is_not_withdrawn_by_another_tenant_s_turn() -> None:
    """A session of the same name is another session."""
    room = ServingRoom(HashChainDecoder(), store_completions=False)
    prepared = make_job(
        [*HISTORY, 7], id="warm-up of ann", boundary=len(HISTORY), session="chat", bucket=bucket("ann")
    )
    room.warmups.offer(prepared)
    room.warmups.withdraw(turn("bob", HISTORY, "first"))
    assert room.warmups.take() == prepared


@given(
    turns=st.lists(
        st.tuples(
            st.sampled_from(["ann", "bob", "eve"]), st.sampled_from(["chat", "work"]), st.integers(0, 3)
        ),
        min_size=2,
        max_size=8,
    ),
    truncatable=st.booleans(),
)
def test_whoever_runs_beside_it_a_tenant_computes_what_it_would_alone(
    turns: list[tuple[str, str, int]], truncatable: bool
) -> None:
    """Same prompts, same sessions, any order: replies, reused tokens and counts are those of one alone."""

    def life(only: str | None) -> dict[str, list[object]]:
        room = ServingRoom(HashChainDecoder(truncatable=truncatable))
        told: dict[str, list[object]] = {"ann": [], "bob": [], "eve": []}
        for number, (tenant, session, length) in enumerate(turns):
            if only in (None, tenant):
                job = turn(tenant, [*HISTORY, *range(300, 300 + 5 * length)], f"turn {number}", session)
                room.run(job)
                assert room.reply(job) == reply_to(job.tokens, job.max_tokens)
                told[tenant].append(room.started(job))
        for tenant, said in told.items():
            counted = room.tally.read(tenant)
            said.append((counted.lookups, counted.removals, counted.inserts, counted.reused_tokens))
        assert_told_apart(room)
        return told

    together = life(None)
    for tenant in together:
        assert together[tenant] == life(tenant)[tenant]


def assert_told_apart(room: ServingRoom) -> None:
    """Every event of the store is of the tenant whose job caused it."""
    for parts in _by_call(room):
        assert len({tenant_of(part) for part in parts}) == 1


def _by_call(room: ServingRoom) -> Iterator[tuple[SnapshotEvent, ...]]:
    return (event.events for event in room.events if isinstance(event, Transaction))
