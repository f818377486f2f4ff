"""The recording rules: what several queries read, or what is dear to compute. It knows no alert.

Whoever loads no recording rules can have the same alerts: `inlined` puts each query where its name stands.
`without` is used throughout, never `by`: what tells servers apart (job, instance, and cluster, namespace or
pod where there are any) stays on every result, so that nothing is added up over servers.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Recording:
    """A query under a name of its own: level, metric, operations."""

    name: str
    query: str


EVICTION = 'reason=~"lru_bytes|lru_entries|lru_arrays|pressure"'
"""The removals that cost something; `superseded` and `replaced` are a conversation that moves on."""

_LOOKED_UP = 'outcome!~"disabled|opted_out"'


def _reuse_ratio(window: str) -> str:
    return (
        f"increase(samovar_snapshot_reused_tokens_total[{window}])"
        f" / (increase(samovar_snapshot_lookup_tokens_total[{window}]) > 0)"
    )


# Snapshots stay for hours: what is looked at every five minutes misses no peak that matters.
MOST_BYTES = Recording(
    "instance:samovar_snapshot_bytes:max1h",
    "max_over_time((sum without (origin) (samovar_snapshot_bytes))[1h:5m])",
)
LOOKUPS = Recording(
    "instance:samovar_snapshot_lookups:increase30m",
    f"sum without (outcome) (increase(samovar_snapshot_lookups_total{{{_LOOKED_UP}}}[30m]))",
)
EVICTIONS = Recording(
    "instance:samovar_snapshot_evictions:increase30m",
    f"sum without (reason) (increase(samovar_snapshot_removals_total{{{EVICTION}}}[30m]))",
)
REUSE = Recording("instance:samovar_snapshot_reuse:ratio30m", _reuse_ratio("30m"))
REUSE_OF_A_DAY = Recording("instance:samovar_snapshot_reuse:ratio24h", _reuse_ratio("24h"))

RECORDINGS = (MOST_BYTES, LOOKUPS, EVICTIONS, REUSE, REUSE_OF_A_DAY)


def inlined(query: str) -> str:
    """`query` with the recorded series it names replaced by what they record."""
    for recording in RECORDINGS:
        query = query.replace(recording.name, f"({recording.query})")
    return query
