"""The alerts about the snapshot store: too small, too large, of no use, or wrong.

Evictions alone are no alert: a full store evicts all day and serves everybody. What is told is an eviction
that cost somebody something. Where two alerts have one cause, the wider one leaves out the narrower.
`_WARM` leaves out a server that was just started; where a platform tells no start time it lets everything
through, since an unguarded alert is better than a mute one.
"""

from grafana.source import thresholds
from grafana.source.alert import CACHE_SIZING, Alert, Fact, Panel, Severity, Shown
from grafana.source.recordings import EVICTION, EVICTIONS, LOOKUPS, MOST_BYTES, REUSE, REUSE_OF_A_DAY

_WARM = f"unless time() - process_start_time_seconds < {thresholds.COLD_START_SECONDS}"

_SELF_EVICTIONS = "increase(samovar_snapshot_self_evictions_total[30m])"
_MOST_HELD = f"max_over_time({MOST_BYTES.name}[7d:1h])"


def _lookups_1h(matcher: str) -> str:
    return f"sum without (outcome) (increase(samovar_snapshot_lookups_total{{{matcher}}}[1h]))"


_LOOKED_UP_1H = _lookups_1h('outcome!~"disabled|opted_out"')
_DIVERGED_1H = _lookups_1h('outcome="diverged"')
# A new conversation shares the chat template's first words with every other of its session. That is no
# rewritten history, although the lookup ends in the same way.
_REWRITTEN_1H = (
    "(increase(samovar_snapshot_divergence_tokens_count[1h]) - ignoring (le)"
    ' increase(samovar_snapshot_divergence_tokens_bucket{le="32.0"}[1h]))'
)

_CAPACITY = Fact("capacity", "max without () (samovar_snapshot_capacity_bytes)", Shown.BYTES)
_RECOMMENDED = Fact("recommended", "max without () (samovar_snapshot_recommended_bytes)", Shown.BYTES)
_MEDIAN_IDLE = Fact(
    "idle",
    "histogram_quantile(0.5, sum without (reason)"
    f" (rate(samovar_snapshot_idle_before_removal_seconds_bucket{{{EVICTION}}}[30m])))",
    Shown.SECONDS,
)
_REUSE_GAP = Fact(
    "gap",
    "histogram_quantile(0.9, rate(samovar_snapshot_reuse_gap_seconds_bucket[30m]))",
    Shown.SECONDS,
)

BUDGET_TOO_SMALL = Alert(
    name="SamovarCacheBudgetTooSmall",
    severity=Severity.WARNING,
    # Only a limit that was reached evicts, so that no second condition on how full the store is would add
    # anything; and with few large snapshots it is never nearly full in bytes, although it holds too little.
    value=_SELF_EVICTIONS,
    comparison=">",
    threshold=thresholds.SELF_EVICTIONS,
    hold="10m",
    summary="The snapshot store evicts the conversation that it is serving.",
    description=(
        "{instance} evicted {value} snapshots of the very session it was serving in 30 minutes."
        " The store may hold {capacity}; recommended: {recommended}."
    ),
    runbook="snapshots",
    panel=Panel(CACHE_SIZING, "Self-evictions"),
    conditions=(_WARM,),
    facts=(_CAPACITY, _RECOMMENDED),
)

THRASHING = Alert(
    name="SamovarCacheThrashing",
    severity=Severity.WARNING,
    # The gap between two turns is seen only where the second one hits: the more a store thrashes, the
    # shorter the gaps it can see, and with none they say nothing. Ghost hits are the gaps it cannot see.
    value=(
        'sum without (capacity) (increase(samovar_snapshot_ghost_hits_total{capacity="4x"}[30m]))'
        f" / ({LOOKUPS.name} > 0)"
    ),
    comparison=">",
    threshold=thresholds.GHOST_RATIO,
    hold="30m",
    summary="The snapshot store evicts what is asked for again.",
    description=(
        "On {instance} {value} of the lookups missed a snapshot that more memory would have kept."
        " Snapshots are evicted after {idle} without use (median); of the conversations that still hit, nine"
        " in ten come back within {gap}. The store may hold {capacity}; recommended: {recommended}."
    ),
    runbook="snapshots",
    panel=Panel(CACHE_SIZING, "Ghost hits"),
    shown=Shown.RATIO,
    conditions=(
        f"and {EVICTIONS.name} > {thresholds.CAPACITY_REMOVALS}",
        f"unless {_SELF_EVICTIONS} > {thresholds.SELF_EVICTIONS}",
        _WARM,
    ),
    facts=(_MEDIAN_IDLE, _REUSE_GAP, _CAPACITY, _RECOMMENDED),
)

HIT_COLLAPSE = Alert(
    name="SamovarCacheHitCollapse",
    severity=Severity.WARNING,
    value=f"{REUSE.name} / ({REUSE_OF_A_DAY.name} > {thresholds.HIT_BASELINE_RATIO})",
    comparison="<",
    threshold=thresholds.HIT_COLLAPSE_RATIO,
    hold="30m",
    summary="The snapshot store gives far less than it gave the day before.",
    description=(
        "On {instance} {now} of the prompt tokens came out of the store in 30 minutes, {before} in 24 hours;"
        " {diverged} of the last hour's lookups diverged."
    ),
    runbook="snapshots",
    panel=Panel(CACHE_SIZING, "Token hit ratio"),
    shown=Shown.RATIO,
    conditions=(f"and {LOOKUPS.name} > {thresholds.MIN_LOOKUPS}", _WARM),
    facts=(
        Fact("now", REUSE.name, Shown.RATIO),
        Fact("before", REUSE_OF_A_DAY.name, Shown.RATIO),
        Fact("diverged", f"{_DIVERGED_1H} / ({_LOOKED_UP_1H} > 0)", Shown.RATIO),
    ),
)

DIVERGENCE = Alert(
    name="SamovarCacheDivergence",
    severity=Severity.INFO,
    value=f"{_REWRITTEN_1H} / {_LOOKED_UP_1H}",
    comparison=">",
    threshold=thresholds.DIVERGED_RATIO,
    hold="1h",
    summary="A client rewrites its history.",
    description=(
        "On {instance} {value} of the lookups of an hour found a conversation that goes on otherwise; half of"
        " those that diverged did so within the first {tokens} tokens."
    ),
    runbook="snapshots",
    panel=Panel(CACHE_SIZING, "Divergence"),
    shown=Shown.RATIO,
    conditions=(f"and {_LOOKED_UP_1H} > {thresholds.MIN_LOOKUPS}", _WARM),
    facts=(
        Fact(
            "tokens",
            "histogram_quantile(0.5, rate(samovar_snapshot_divergence_tokens_bucket[1h]))",
            Shown.COUNT,
        ),
    ),
)

REJECTS_OVERSIZED = Alert(
    name="SamovarCacheRejectsOversized",
    severity=Severity.WARNING,
    value='sum without (reason) (increase(samovar_snapshot_rejections_total{reason="oversized"}[30m]))',
    comparison=">",
    threshold=thresholds.NONE,
    hold="0s",
    summary="A snapshot is larger than the whole store.",
    description=(
        "{instance} refused {value} snapshots in 30 minutes, each of them larger than the whole store."
        " The store may hold {capacity}; recommended: {recommended}."
    ),
    runbook="snapshots",
    panel=Panel(CACHE_SIZING, "Rejections"),
    facts=(_CAPACITY, _RECOMMENDED),
)

IDLE = Alert(
    name="SamovarCacheIdle",
    severity=Severity.INFO,
    value=f"samovar_snapshot_capacity_bytes / clamp_min({_MOST_HELD}, 1)",
    comparison=">",
    threshold=thresholds.IDLE_FACTOR,
    hold="1d",
    summary="The snapshot store has been given much more memory than it uses.",
    description="{instance} may hold {capacity} and never held more than {most} in seven days.",
    runbook="snapshots",
    panel=Panel(CACHE_SIZING, "Bytes and capacity"),
    # A week has to have been seen before it can be judged; and a store that is switched off takes nothing.
    conditions=(
        "and samovar_snapshot_capacity_bytes offset 7d > 0",
        "and sum without (origin) (samovar_snapshot_inserts_total) > 0",
    ),
    facts=(_CAPACITY, Fact("most", _MOST_HELD, Shown.BYTES)),
)

LEDGER_BROKEN = Alert(
    name="SamovarCacheLedgerBroken",
    severity=Severity.INFO,
    value=(
        "abs(sum without (origin) (samovar_snapshot_inserts_total)"
        " - sum without (reason) (samovar_snapshot_removals_total)"
        " - sum without (origin) (samovar_snapshot_entries))"
        " + abs(sum without (origin) (samovar_snapshot_inserted_bytes_total)"
        " - sum without (reason) (samovar_snapshot_removed_bytes_total)"
        " - sum without (origin) (samovar_snapshot_bytes))"
    ),
    comparison=">",
    threshold=thresholds.NONE,
    hold="10m",
    summary="The store's counters do not add up.",
    description="On {instance} inserts less removals differ from what is held, by {value} entries or bytes.",
    runbook="telemetry",
    panel=Panel(CACHE_SIZING, "Ledger"),
)

SNAPSHOT_ALERTS = (
    *(BUDGET_TOO_SMALL, THRASHING, HIT_COLLAPSE, DIVERGENCE),
    *(REJECTS_OVERSIZED, IDLE, LEDGER_BROKEN),
)
