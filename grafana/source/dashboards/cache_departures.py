"""Panels of Cache sizing: who leaves the store and why, and whether more memory or time would have kept them."""

from grafana.source import thresholds
from grafana.source.kinds import bars, curves, lines
from grafana.source.panels import Limit, Link, Panel, Query
from grafana.source.promql import increase, named, quantile, rate, series, share, total
from grafana.source.recordings import EVICTION
from grafana.source.traces import explore, spans

_LOOKED_UP = 'outcome!~"disabled|opted_out"'
_TTL = f"({series('samovar_snapshot_ttl_seconds')} < +Inf)"
_GAP = "samovar_snapshot_reuse_gap_seconds"
_IDLE = "samovar_snapshot_idle_before_removal_seconds"


def _within(histogram: str, *matchers: str) -> str:
    """The share of observations that were at most as large as each bucket."""
    observed = total(increase(f"{histogram}_count", *matchers))
    buckets = total(increase(f"{histogram}_bucket", 'le!="+Inf"', *matchers), "le")
    return f"{buckets} / on () group_left () ({observed} > 0)"


def _more_hits(capacity: str, window: str) -> str:
    """Hits with more memory: those there were, and the misses that would have been hits."""
    hits = total(increase("samovar_snapshot_lookups_total", 'outcome="hit"', window=window))
    ghosts = total(increase("samovar_snapshot_ghost_hits_total", f'capacity="{capacity}"', window=window))
    return f"({hits} + {ghosts})"


def _evicted_after() -> str:
    """The median time without use of what was evicted; no sample where nothing was."""
    buckets = total(increase(f"{_IDLE}_bucket", EVICTION, window="30m"), "le")
    return f"histogram_quantile(0.5, {buckets}) >= 0"


_LOOKUPS = total(increase("samovar_snapshot_lookups_total", _LOOKED_UP))

REMOVALS = Panel(
    10,
    "Removals by reason",
    lines(stacked=True),
    [Query(total(rate("samovar_snapshot_removals_total"), "reason"), "{{reason}}")],
    unit="ops",
    width=10,
    height=8,
    shows="Snapshots that leave the store each second. Grey is a conversation that moves on, and costs nothing; `ttl` is time without use. Warm colours are evictions and name the limit: bytes, entries, arrays, or memory that requests needed (`pressure`).",
    act="evictions alone are an LRU at work. They hurt where Self-evictions or Ghost hits rise with them: raise the limit that the colour names. Traces of evictions show whose state went, and link to the trace that had put it in.",
    colors={
        "superseded": "#6e7076",
        "replaced": "#9fa2a8",
        "ttl": "purple",
        "cleared": "blue",
        "lru_bytes": "orange",
        "lru_entries": "yellow",
        "lru_arrays": "dark-yellow",
        "pressure": "red",
    },
    links=[Link("Traces of evictions: who pushed out whom", explore(spans("snapshot.evict")))],
)
EVICTED_WHOM = Panel(
    11,
    "Who evicts whom",
    lines(stacked=True),
    [
        Query(total(rate("samovar_snapshot_self_evictions_total")), "its own conversation"),
        Query(
            f"clamp_min({total(rate('samovar_snapshot_removals_total', EVICTION))}"
            f" - {total(rate('samovar_snapshot_self_evictions_total'))}, 0)",
            "another one, or a request that needed memory",
        ),
    ],
    unit="ops",
    width=8,
    height=8,
    shows="Evictions each second by who caused them.",
    act="`its own conversation`: the store is too small for one, raise the limit now. `another one`: ordinary, unless Return and eviction shows that they come back. Which conversations it was is in the traces: the span is in the trace of the one that came, and links to the one that went.",
    colors={"its own conversation": "red", "another one, or a request that needed memory": "orange"},
    links=[
        Link(
            "Traces of self-evictions",
            explore(spans("snapshot.evict", "span.samovar.snapshot.self_eviction = true")),
        )
    ],
)
LEDGER = Panel(
    13,
    "Ledger",
    lines(),
    [
        Query(
            f"max by (instance) (abs({total(series('samovar_snapshot_inserts_total'), 'instance')}"
            f" - {total(series('samovar_snapshot_removals_total'), 'instance')}"
            f" - {total(series('samovar_snapshot_entries'), 'instance')}))",
            "{{instance}}",
        )
    ],
    unit="short",
    width=6,
    height=8,
    decimals=0,
    shows="Inserts less removals less entries. It is 0 at every moment, or what is shown here is wrong.",
    act="anything but 0 is a bug in Samovar: report it with the log around the moment it began.",
    no_value="no server yet",
)

GAPS = Panel(
    14,
    "Return and eviction",
    curves("le", "s", mark="time to live"),
    [
        Query(
            " or ".join(
                named(expression, "curve", curve)
                for curve, expression in {
                    "came back": _within(_GAP),
                    "evicted": _within(_IDLE, EVICTION),
                    "time to live": f'count_values("le", max({_TTL}))',
                }.items()
            ),
            "",
        )
    ],
    unit="percentunit",
    width=12,
    height=10,
    # What bounds a field would bound the axis of seconds as well.
    lowest=None,
    shows="Over the time shown, along seconds unused: the share of hits whose snapshot had lain unused for at most so long (`came back`), and the share of evicted ones that had (`evicted`). The upright line is the time to live.",
    act="`evicted` rising left of where `came back` reaches its top: the store throws away what it is about to need, so raise the budget. `came back` still rising at the upright line: the time to live is too short. `evicted` far to the right, or no such curve: both are right.",
    colors={"came back": "green", "evicted": "red", "time to live": "purple"},
)
REACH = Panel(
    15,
    "How far back the store reaches",
    lines(),
    [
        Query(quantile(0.9, _GAP, window="30m"), "nine of ten came back within"),
        Query(_evicted_after(), "half of the evicted had waited"),
        Query(f"max({series('samovar_snapshot_oldest_age_seconds')})", "oldest now"),
        Query(f"max({_TTL})", "time to live"),
    ],
    unit="s",
    width=12,
    height=10,
    shows="The same over time, as the alert compares it, over 30 minutes; and how long the least recently used snapshot has been unused.",
    act="the red line below the green one is thrashing: snapshots go before their conversations come back. Then Ghost hits says how much memory would help.",
    colors={
        "nine of ten came back within": "green",
        "half of the evicted had waited": "red",
        "oldest now": "blue",
        "time to live": "purple",
    },
    dashed=["time to live"],
)

GHOST_HITS = Panel(
    16,
    "Ghost hits",
    lines(),
    [
        Query(
            f"{total(increase('samovar_snapshot_ghost_hits_total', window='30m'), 'capacity')}"
            f" / on () group_left () ({total(increase('samovar_snapshot_lookups_total', _LOOKED_UP, window='30m'))} > 0)",
            "with {{capacity}} the memory",
        )
    ],
    unit="percentunit",
    width=14,
    height=8,
    shows="The share of lookups of the last 30 minutes that missed, and would have been hits with 1.5, 2 or 4 times the capacity.",
    act="above the line more memory would be felt: take the smallest capacity whose line lies close to that of `4x`. All near zero: more memory gains nothing, whatever is evicted.",
    limits=[Limit(thresholds.GHOST_RATIO)],
    colors={
        "with 1.5x the memory": "yellow",
        "with 2x the memory": "orange",
        "with 4x the memory": "dark-orange",
    },
)
GAIN = Panel(
    17,
    "Hit ratio with more memory",
    bars(),
    [
        Query(share(total(increase("samovar_snapshot_lookups_total", 'outcome="hit"')), _LOOKUPS), "now"),
        *(
            Query(share(_more_hits(capacity, "$__range"), _LOOKUPS), capacity)
            for capacity in ("1.5x", "2x", "4x")
        ),
    ],
    unit="percentunit",
    width=10,
    height=8,
    highest=1,
    ground="blue",
    shows="The share of lookups of the time shown that were hits, and that would have been with more memory.",
    act="the step from bar to bar is what more memory gains. Where it stops, stop.",
)
