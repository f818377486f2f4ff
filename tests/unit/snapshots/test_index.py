"""The index: one tree for each bucket and session, and nothing left of those that are gone."""

from dataclasses import replace

from app.snapshots.entry import pack
from app.vocabulary import Origin
from tests.support.snapshots import BUCKET, Heard, limits

TOOLS = replace(BUCKET, template_signature="tools")
OTHER_TENANT = replace(BUCKET, tenant="other")


def test_dead_sessions_leave_nothing_behind() -> None:
    """A thousand sessions that come and go do not make the index grow."""
    heard = Heard(limits(max_entries=1))
    for number in range(1_000):
        heard.put([1, 2, number], session=f"session {number}")

    index = heard.store._held.index
    assert (len(index._trees), len(index._nodes), len(index._buckets)) == (1, 1, 1)
    heard.store.clear()
    assert (index._trees, index._nodes, index._buckets) == ({}, {}, {})


def test_a_request_sees_its_session_and_the_shared_entries() -> None:
    """Entries of other sessions, other buckets and no session are out of sight; `system` entries are not."""
    heard = Heard()
    heard.put([1, 2], session="other")
    heard.put([1, 2], session=None)
    heard.put([1, 2], bucket=TOOLS)
    heard.put([1, 2], bucket=TOOLS, origin=Origin.SYSTEM)
    assert heard.find([1, 2, 3]).candidates == ()

    heard.put([1, 2], origin=Origin.SYSTEM)
    assert [c.entry.id for c in heard.find([1, 2, 3]).candidates] == [5]
    heard.put([1, 2])
    assert [c.entry.id for c in heard.find([1, 2, 3]).candidates] == [6, 5]


def test_what_has_no_session_is_seen_by_what_has_none() -> None:
    """A request without a session uses entries without one, and the shared ones."""
    heard = Heard()
    heard.put([1, 2], session=None)
    heard.put([1], session="s", origin=Origin.SYSTEM)

    assert [c.entry.id for c in heard.find([1, 2, 3], session=None).candidates] == [1, 2]


def test_elsewhere_asks_the_bucket_the_session_used_before() -> None:
    """Of a session's other buckets the one last inserted into is asked, and only while it holds entries."""
    heard = Heard()
    index = heard.store._held.index
    heard.put([1, 2, 3, 4])
    heard.put([1, 2], bucket=TOOLS)
    other = replace(BUCKET, model="other")
    assert index.elsewhere(other, "s", pack([1, 2, 3, 4])) == 2

    heard.put([5, 6])
    assert index.elsewhere(other, "s", pack([1, 2, 3, 4])) == 4
    assert index.elsewhere(BUCKET, "s", pack([1, 2, 3, 4])) == 2

    assert index.elsewhere(OTHER_TENANT, "s", pack([1, 2, 3, 4])) == 0
    assert index.elsewhere(other, None, pack([1, 2, 3, 4])) == 0
    heard.store.clear()
    assert index.elsewhere(other, "s", pack([1, 2, 3, 4])) == 0
