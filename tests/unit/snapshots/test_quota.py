"""A tenant's quota: whose room is made, what is refused, and what others notice of it."""

from dataclasses import replace

from app.events import LookupMissed, SnapshotRejected
from app.snapshots.entry import pack
from app.snapshots.store import SnapshotStore
from app.vocabulary import Growth, Origin, Rejection, Removal
from tests.support.clock import ManualClock
from tests.support.snapshots import BUCKET, Block, Heard, limits

ANN, BOB = (replace(BUCKET, tenant=tenant) for tenant in ("ann", "bob"))


def store_of(quotas: dict[str, int], *, capacity_bytes: int = 100) -> Heard:
    """A store in which tenants have quotas, and all that it says."""
    heard = Heard(limits(capacity_bytes=capacity_bytes))
    heard.store = SnapshotStore(heard.limits, clock=heard.clock, emit=heard._hear, quota=quotas.get)
    return heard


def test_a_tenant_over_its_quota_gives_up_its_own_least_recently_used() -> None:
    """Though another's snapshot is older, and the store has room; the reason is that of any want of bytes."""
    heard = store_of({"ann": 10})
    heard.put([1, 1], session="old", bucket=BOB, nbytes=50)
    for number in range(3):
        heard.put([number, 2], session=str(number), bucket=ANN, nbytes=4)
    assert heard.removals == [(2, Removal.LRU_BYTES)]
    assert heard.self_evictions == []
    heard.put([9, 9], session="2", bucket=ANN, nbytes=9)
    assert heard.self_evictions == [4]
    assert heard.held == [1, 5]


def test_what_is_larger_than_the_quota_costs_nobody_anything() -> None:
    """It is oversized, as measured by the quota; with a smaller store, by the store."""
    heard = store_of({"ann": 10})
    heard.put([1, 1], bucket=ANN, nbytes=10)
    assert heard.put([2, 2], bucket=ANN, nbytes=11) is Rejection.OVERSIZED
    assert heard.events[-1] == SnapshotRejected(
        Rejection.OVERSIZED, Origin.BOUNDARY, "s", tokens=2, nbytes=11, capacity_bytes=10, tenant="ann"
    )
    assert heard.put([2, 2], bucket=BOB, nbytes=11) is None
    assert heard.removals == []
    small = store_of({"ann": 10}, capacity_bytes=5)
    assert small.put([1, 1], bucket=ANN, nbytes=6) is Rejection.OVERSIZED
    assert isinstance(rejected := small.events[-1], SnapshotRejected)
    assert rejected.capacity_bytes == 5


def test_a_guess_needs_room_in_the_quota_too() -> None:
    """It pushes out nothing of its own tenant's either."""
    heard = store_of({"ann": 10})
    heard.put([1, 1], bucket=ANN, nbytes=8)
    for bucket, answer in ((ANN, Rejection.LOW_MEMORY), (BOB, None)):
        refused = heard.store.insert(
            bucket=bucket,
            session="s",
            origin=Origin.BOUNDARY,
            tokens=pack([1, 1, 1]),
            payload=Block(5),
            tentative=True,
        )
        assert refused is answer
    assert heard.removals == []


def test_a_smaller_quota_holds_from_the_next_insert_on() -> None:
    """Nobody loses anything by a change of keys alone; then as much goes as it takes."""
    quotas = {"ann": 30}
    heard = store_of(quotas)
    for number in range(3):
        heard.put([number, 2], session=str(number), bucket=ANN, nbytes=10)
    quotas["ann"] = 10
    assert heard.use([0, 2, 2], session="0", bucket=ANN) == 2
    assert heard.removals == []
    heard.put([8, 8], session="8", bucket=ANN, nbytes=1)
    assert [number for number, _ in heard.removals] == [2, 3, 1]
    quotas.clear()
    heard.put([9, 9], session="9", bucket=ANN, nbytes=50)
    assert heard.held == [4, 5]


def test_more_memory_is_no_use_to_a_tenant_at_its_quota() -> None:
    """What its quota pushed out is no ghost: a larger store has the same quotas."""
    heard = store_of({"ann": 10})
    for number in range(2):
        heard.put([number, 2], session=str(number), bucket=ANN, nbytes=8)
    heard.put([7, 7], session="big", bucket=ANN, nbytes=20)
    for tokens, session in (([0, 2, 2], "0"), ([7, 7, 7], "big")):
        heard.use(tokens, session=session, bucket=ANN)
    missed = [event for event in heard.events if isinstance(event, LookupMissed)]
    assert [event.growth for event in missed] == [None, None]
    assert heard.store._ghosts.nbytes == 0
    others = store_of({"ann": 90})
    for number in range(3):
        others.put([number, 2], session=str(number), bucket=ANN, nbytes=30)
    others.put([1, 1], session="bob", bucket=BOB, nbytes=30)
    found = others.find([0, 2, 2], session="0", bucket=ANN)
    assert found.growth is Growth.HALF_MORE, "what another tenant pushed out is"


def test_a_session_is_forgotten_whole_and_alone() -> None:
    """In every bucket of its tenant, its ghosts too; not another session, tenant or system prompt."""
    heard = Heard(limits(capacity_bytes=20), clock=ManualClock())
    tools = replace(ANN, template_signature="tools")
    heard.put([5, 5], session="chat", bucket=ANN, nbytes=4)
    heard.put([1, 1], session="chat", bucket=ANN, nbytes=4)
    heard.put([1, 1], session="chat", bucket=tools, nbytes=4)
    heard.put([1, 1], session="chat", bucket=BOB, nbytes=4)
    heard.put([1, 1], session="work", bucket=ANN, nbytes=4)
    heard.put([1, 1], origin=Origin.SYSTEM, bucket=ANN, nbytes=4)
    assert heard.store._ghosts.nbytes == 4
    assert heard.store.forget_session("ann", "chat") == (2, 8)
    assert heard.removals[-2:] == [(2, Removal.CLEARED), (3, Removal.CLEARED)]
    assert heard.held == [4, 5, 6]
    assert heard.store._ghosts.nbytes == 0
    assert heard.store.forget_session("ann", "chat") == (0, 0)
    assert heard.store.clear("ann") == (2, 8)
    assert heard.held == [4]
