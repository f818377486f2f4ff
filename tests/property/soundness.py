"""Facts about a store's insides that no answer shows at once: a broken one is a leak or a later mistake."""

from collections.abc import Iterator
from typing import Any

from app.snapshots.entry import BYTES_PER_TOKEN, Entry, Standing, TokenBytes
from app.snapshots.holdings import Holdings
from app.snapshots.index import Index
from app.snapshots.limits import Limits
from app.snapshots.store import SnapshotStore
from app.snapshots.tree import Node


def check_index(index: Index[Any], entries: list[Entry[Any]]) -> dict[int, TokenBytes]:
    """Every tree is minimal and ordered by use, and holds exactly `entries`; returns id → tokens."""
    vectors: dict[int, TokenBytes] = {}
    nodes: dict[int, Node[Any]] = {}
    for place, tree in index._trees.items():
        assert tree, "an empty tree was kept"
        for vector, node in _nodes(tree._root, b""):
            for origin, entry in node.entries.items():
                assert origin is entry.facts.origin
                assert (entry.bucket, entry.facts.session) == (place.bucket, place.session)
                assert entry.facts.tokens == len(vector) // BYTES_PER_TOKEN
                vectors[entry.facts.id] = TokenBytes(vector)
                nodes[entry.facts.id] = node
    assert set(vectors) == {entry.facts.id for entry in entries}
    assert nodes == index._nodes
    sessions = {(p.bucket.tenant, p.session, p.bucket) for p in index._trees if p.session is not None}
    filed = {(*key, bucket) for key, buckets in index._buckets.items() for bucket in buckets}
    assert filed == sessions
    assert all(index._buckets.values()), "a session without buckets was kept"
    return vectors


def check_lines(held: Holdings[Any]) -> None:
    """Every line is in the order of use, which is that of expiry, and each session knows its kept entries."""
    kept = []
    for standing, line in held._lines.items():
        entries = list(line.values())
        assert all(entry.standing == standing for entry in entries)
        assert [entry.used for entry in entries] == sorted(entry.used for entry in entries)
        assert [entry.last_used for entry in entries] == sorted(entry.last_used for entry in entries)
        kept += [entry for entry in entries if standing == Standing.KEPT]
    assert all(held._kept.values()), "a session without kept entries was listed"
    places = {(entry.bucket, entry.facts.session) for entry in kept}
    assert {
        place: [entry for entry in kept if (entry.bucket, entry.facts.session) == place] for place in places
    } == {place: list(entries.values()) for place, entries in held._kept.items()}


def check_shares(held: Holdings[Any]) -> None:
    """Every tenant's share is its entries in the very order of all, and no tenant without any has one."""
    tenants = {entry.bucket.tenant for entry in held}
    assert held._shares.keys() == tenants
    for tenant in tenants:
        mine = [entry for entry in held if entry.bucket.tenant == tenant]
        assert list(held.of(tenant)) == mine
        assert held.of(tenant).nbytes == sum(entry.facts.nbytes for entry in mine)


def check_totals(store: SnapshotStore[Any], limits: Limits) -> None:
    """The running totals are what a recount gives, and within `limits`."""
    entries = list(store._held)
    occupancy = store.occupancy()
    assert occupancy.entries == len(entries)
    assert occupancy.nbytes == sum(entry.facts.nbytes for entry in entries)
    assert occupancy.arrays == sum(entry.facts.arrays for entry in entries)
    for origin, total in occupancy.by_origin.items():
        mine = [entry.facts.nbytes for entry in entries if entry.facts.origin is origin]
        assert total == (len(mine), sum(mine))
    assert limits.exceeded(occupancy.entries, occupancy.nbytes, occupancy.arrays) is None


def check_ghosts(store: SnapshotStore[Any]) -> None:
    """Ghosts are filed and added up as what is held is; each is one entry, and no entry is one as well."""
    ghosts = store._ghosts
    bands = ghosts._bands.values()
    entries = [ghost for band in bands for ghost in band.values()]
    check_index(ghosts._index, entries)
    assert {ghost.facts.id for ghost in entries}.isdisjoint(entry.facts.id for entry in store._held)
    for totals, band in zip(ghosts._totals.values(), bands, strict=True):
        mine = [ghost.facts for ghost in band.values()]
        assert totals == (len(mine), sum(each.nbytes for each in mine), sum(each.arrays for each in mine))
    assert ghosts._token_bytes == BYTES_PER_TOKEN * sum(ghost.facts.tokens for ghost in entries)
    by_tenant = {ghost.bucket.tenant: 0 for ghost in entries}
    assert ghosts._of_tenant.keys() == by_tenant.keys()
    assert {id(ghost) for of in ghosts._of_tenant.values() for ghost in of.values()} == set(map(id, entries))
    assert ghosts._tenant_bytes == {
        tenant: sum(ghost.facts.nbytes for ghost in of.values()) for tenant, of in ghosts._of_tenant.items()
    }
    owned = [entry for entry in [*entries, *store._held] if entry.facts.session is not None]
    assert store._ghosts._census._entries.total() == len(owned)


def _nodes(node: Node[Any], vector: bytes) -> Iterator[tuple[bytes, Node[Any]]]:
    """Every node below the root and at it, with its token vector, checking each on the way."""
    if node.parent is None:
        assert (node.edge, node.entries) == (b"", {})
    else:
        assert node.edge
        assert len(node.edge) % BYTES_PER_TOKEN == 0
        assert node.entries or len(node.children) > 1, "a node without a purpose was kept"
        yield vector, node
    latest = [_latest_use(child) for child in node.children.values()]
    assert latest == sorted(latest), "children do not stand in the order of their last use"
    for key, child in node.children.items():
        assert child.parent is node
        assert key == child.edge[:BYTES_PER_TOKEN]
        yield from _nodes(child, vector + child.edge)


def _latest_use(node: Node[Any]) -> int:
    return max(
        [entry.used for entry in node.entries.values()]
        + [_latest_use(child) for child in node.children.values()]
    )
