"""What lives of a store are made of: places, tokens, payloads and limits that let its rules meet often."""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from app.events import TraceRef
from app.snapshots.entry import Bucket
from app.vocabulary import Origin
from tests.support.snapshots import Block

BUCKETS = (
    Bucket(model="demo", cache_signature="kv", tenant="acme"),
    Bucket(model="demo", cache_signature="kv", tenant="acme", template_signature="tools"),
    Bucket(model="demo", cache_signature="kv", tenant="other"),
)

# Small enough to bind within a few inserts, or out of the way so that other rules can show.
LIMITS: dict[str, Sequence[Any]] = {
    "capacity_bytes": (1_000, 1_000, 40, 20, 10),
    "max_entries": (1_000, 1_000, 5, 2, 1),
    "ttl_seconds": (None, 4.0, 8.0),
    "min_prefix_tokens": (1, 2, 3),
    "max_arrays": (None, None, 12, 6),
    "supersede": (True, True, True, False),
    "keep_ancestors": (0, 1, 2),
}
# Three tokens make vectors meet and part often; the first two begin with the same byte.
TOKEN = st.sampled_from([1, 257, 70_000])
TOKENS = st.lists(TOKEN, min_size=2, max_size=6).map(tuple)
TAILS = st.lists(TOKEN, max_size=3).map(tuple)
TURNS = st.lists(st.tuples(TOKEN, TOKEN), min_size=1, max_size=3)
TENANTS = st.sampled_from(["acme", "other"])
QUOTAS: st.SearchStrategy[dict[str, int]] = st.sampled_from(
    [{"acme": 8}, {"acme": 18}, {"acme": 18, "other": 8}]
)
PAYLOADS = st.builds(
    Block,
    nbytes=st.integers(1, 11),
    arrays=st.integers(0, 7),
    cuts_from=st.sampled_from([None, None, 0, 2, 4]),
)
PLACES = st.tuples(st.sampled_from([BUCKETS[0], *BUCKETS]), st.sampled_from(["ann", "ann", "bob", None]))
HERE = (BUCKETS[0], "ann")
ORIGINS = (Origin.BOUNDARY, Origin.BOUNDARY, Origin.COMPLETION, Origin.SYSTEM)
# Some lives are narrow: of one conversation, or of few origins, so that long stories of those come about.
NARROW = st.sampled_from([False, True])
LIVED = st.sampled_from([ORIGINS, ORIGINS, (Origin.BOUNDARY,), (Origin.BOUNDARY, Origin.SYSTEM)])
CAUSES = st.none() | st.builds(
    TraceRef, trace_id=st.integers(1, 3), span_id=st.integers(1, 3), sampled=st.booleans()
)
Place = tuple[Bucket, str | None]
