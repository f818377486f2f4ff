"""Panels of Cache sizing: what one entry takes, whether it is used, why turns miss, and what a hit costs."""

from grafana.source import thresholds
from grafana.source.kinds import bars, heat, lines
from grafana.source.panels import Limit, Link, Panel, Query
from grafana.source.promql import increase, quantile, rate, series, share, total
from grafana.source.traces import explore, spans

_LOOKED_UP = 'outcome!~"disabled|opted_out"'
_SIZE = "samovar_snapshot_size_bytes"

SIZES = Panel(
    18,
    "Size of a snapshot",
    heat("bytes"),
    [Query(total(increase(f"{_SIZE}_bucket", window="$__rate_interval"), "le"), "{{le}}")],
    unit="short",
    width=12,
    height=8,
    shows="How large the snapshots were that were put in.",
    act="a band that climbs is conversations that grow longer: the budget has to grow with them. Two bands are two kinds of clients; size for the upper one.",
)
FIT = Panel(
    19,
    "Conversations that fit",
    lines(),
    [
        Query(
            f"{total(series('samovar_snapshot_capacity_bytes'))} / (histogram_quantile({rank:g},"
            f" {total(increase(f'{_SIZE}_bucket'), 'le')}) > 0)",
            legend,
        )
        for rank, legend in ((0.5, "of median size"), (0.95, "of large size (95%)"))
    ]
    + [
        Query(total(series("samovar_snapshot_entries")), "held"),
        Query(total(series("samovar_snapshot_wanted_sessions")), "active conversations"),
    ],
    unit="short",
    width=12,
    height=8,
    decimals=0,
    shows="How many snapshots of median and of large size the capacity holds, how many there are, and how many conversations were active within one time to live; the sum of the chosen servers.",
    act="`active conversations` above `of median size`: the budget is too small for everyone who comes back. A system prompt's state and a warm-up take entries too.",
    colors={
        "of median size": "green",
        "of large size (95%)": "yellow",
        "held": "blue",
        "active conversations": "red",
    },
    dashed=["of median size", "of large size (95%)"],
)

UNUSED = Panel(
    20,
    "Never used before it left",
    lines(),
    [
        Query(
            share(
                total(increase("samovar_snapshot_entry_hits_bucket", 'le="0.0"', window="1h"), "cause"),
                total(increase("samovar_snapshot_entry_hits_count", window="1h"), "cause"),
            ),
            "{{cause}}",
        )
    ],
    unit="percentunit",
    width=8,
    height=8,
    highest=1,
    shows="Of the snapshots that left within an hour, by why: the share that was never used.",
    act="high under `evicted` or `expired`: the store holds what nobody comes back for. See Inserts by origin for what is put in, and turn off that origin if it is not used (`snapshots.completions`, `snapshots.system_anchors`).",
    colors={"superseded": "#6e7076", "evicted": "orange", "expired": "purple", "cleared": "blue"},
)
USES = Panel(
    21,
    "Uses of an entry",
    bars(),
    [
        Query(
            share(
                total(increase("samovar_snapshot_entry_hits_sum"), "cause"),
                total(increase("samovar_snapshot_entry_hits_count"), "cause"),
            ),
            "{{cause}}",
        )
    ],
    unit="short",
    width=8,
    height=8,
    decimals=2,
    ground="blue",
    shows="How often a snapshot was used before it left, on average over the time shown, by why it left.",
    act="near 1 under `superseded` is a conversation that goes on turn by turn. Below 1 under `evicted` is memory that did not pay.",
)
INSERTS = Panel(
    22,
    "Inserts by origin",
    lines(stacked=True),
    [Query(total(rate("samovar_snapshot_inserts_total"), "origin"), "{{origin}}")],
    unit="ops",
    width=8,
    height=8,
    shows="Snapshots put in each second, by where they were taken: where the history ends, after the reply, after the system prompt.",
    act="many `system` ones are system prompts that differ from request to request: have the client move names and clocks out of them.",
    colors={"boundary": "blue", "completion": "purple", "system": "yellow"},
)

MISSES = Panel(
    23,
    "Misses by reason",
    lines(stacked=True),
    [Query(total(rate("samovar_snapshot_lookups_total", 'outcome!="hit"'), "outcome"), "{{outcome}}")],
    unit="ops",
    width=8,
    height=8,
    shows="Lookups that found nothing, each second, by why. `empty` and `no_candidate`: nothing of this conversation is stored, as at each first turn. `diverged`: the client changed its history. `incompatible`: other tools, template or adapter. `restore_failed`: a fault.",
    act="for one turn, click through to the traces: the span says the reason and how many tokens were shared. `no_candidate` that rises with evictions is the budget; `diverged` is the client; `restore_failed` belongs into a bug report.",
    colors={
        "empty": "#6e7076",
        "no_candidate": "blue",
        "diverged": "orange",
        "too_short": "#9fa2a8",
        "incompatible": "yellow",
        "restore_failed": "red",
        "disabled": "#4d4f54",
        "opted_out": "#c7c9ce",
    },
    links=[
        Link(
            "Traces of misses: why did this turn not hit",
            explore(spans("snapshot.lookup", 'span.samovar.snapshot.outcome != "hit"')),
        )
    ],
)
DIVERGENCE = Panel(
    24,
    "Divergence",
    lines(),
    [
        Query(
            share(
                total(increase("samovar_snapshot_lookups_total", 'outcome="diverged"', window="1h")),
                total(increase("samovar_snapshot_lookups_total", _LOOKED_UP, window="1h")),
            ),
            "diverged within an hour",
        )
    ],
    unit="percentunit",
    width=8,
    height=8,
    highest=1,
    shows="The share of lookups of an hour at which the client had changed its history.",
    act="above the line a program rewrites its history: Where histories diverge says at which length, and the traces say which conversations.",
    limits=[Limit(thresholds.DIVERGED_RATIO)],
    colors={"diverged within an hour": "orange"},
    links=[
        Link(
            "Traces of diverged turns",
            explore(spans("snapshot.lookup", 'span.samovar.snapshot.outcome = "diverged"')),
        )
    ],
)
DIVERGED_AT = Panel(
    25,
    "Where histories diverge",
    heat("short"),
    [
        Query(
            total(increase("samovar_snapshot_divergence_tokens_bucket", window="$__rate_interval"), "le"),
            "{{le}}",
        )
    ],
    unit="short",
    width=8,
    height=8,
    shows="At a diverged lookup, how many tokens were still the same.",
    act="one band is one client that edits its prompt there: near the beginning a clock or a name in the system prompt, further on a history that is cut or summarised. No change of the budget helps.",
    no_value="nothing diverged",
)

COST = Panel(
    26,
    "What a hit costs",
    lines(logarithmic=True),
    [
        Query(quantile(rank, f"samovar_{name}_seconds"), f"{what}, {words}")
        for name, what in (
            ("snapshot_restore", "restore"),
            ("snapshot_capture", "capture"),
            ("request_prefill", "prefill"),
        )
        for rank, words in ((0.5, "half"), (0.95, "95%"))
    ],
    unit="s",
    width=14,
    height=8,
    lowest=None,
    shows="Time to copy a snapshot back (`restore`) and out (`capture`), beside the time to read a prompt, restores included (`prefill`). The scale is logarithmic.",
    act="`restore` near `prefill`: hits are hardly worth it, raise `snapshots.min_prefix_tokens`. `capture` that rises holds up the whole batch.",
    colors={
        "restore, half": "green",
        "restore, 95%": "dark-green",
        "capture, half": "blue",
        "capture, 95%": "dark-blue",
        "prefill, half": "orange",
        "prefill, 95%": "dark-orange",
    },
)
REJECTIONS = Panel(
    27,
    "Rejections",
    lines(stacked=True),
    [Query(total(increase("samovar_snapshot_rejections_total", window="30m"), "reason"), "{{reason}}")],
    unit="short",
    width=10,
    height=8,
    shows="Snapshots that never entered, in the last 30 minutes.",
    act="`oversized`: one conversation is larger than the whole store, raise `snapshots.capacity_bytes` above its size. `low_memory`: there was no room to copy it, see Memory on the Overview. `too_short` costs nothing.",
    colors={
        "oversized": "red",
        "low_memory": "orange",
        "unsupported": "yellow",
        "disabled": "#6e7076",
        "too_short": "#9fa2a8",
    },
)
