"""Panels of Cache sizing: is the budget right, what is the store worth, which limit binds."""

from grafana.source import thresholds
from grafana.source.kinds import grid, lines, number
from grafana.source.panels import Limit, Panel, Query
from grafana.source.promql import increase, mean, named, rate, series, share, total

_REUSED = "samovar_snapshot_reused_tokens_total"
_PROMPTS = "samovar_snapshot_lookup_tokens_total"

_FIRST = "samovar_time_to_first_token_seconds"
_HIT = 'cache="hit"'
_MISS = 'cache="miss"'

_HELD = total(series("samovar_snapshot_bytes"), "job", "instance")
_CAPACITY = series("samovar_snapshot_capacity_bytes")
_RECOMMENDED = series("samovar_snapshot_recommended_bytes")
_FILL = f"{_HELD} / on (job, instance) ({_CAPACITY} > 0)"

HIT_RATIO = Panel(
    1,
    "Token hit ratio",
    lines(),
    [
        Query(
            share(total(increase(_REUSED, window=window)), total(increase(_PROMPTS, window=window))),
            f"of {window}",
        )
        for window in ("30m", "24h")
    ],
    unit="percentunit",
    width=6,
    height=6,
    highest=1,
    shows="The share of prompt tokens that were not computed again, in the last 30 minutes and the last 24 hours.",
    act="`30m` below half of `24h` is a collapse: see Misses by reason for what became more. Low, but even, is no fault: first turns have nothing to reuse.",
    colors={"of 30m": "green", "of 24h": "text"},
    dashed=["of 24h"],
)
FILL = Panel(
    2,
    "Fill",
    number(),
    [Query(f"max({_FILL})", "fullest store")],
    unit="percentunit",
    width=4,
    height=6,
    highest=1,
    shows="How full the fullest store is.",
    act="a full store is what a budget is for: evictions begin here, and Self-evictions says whether they hurt.",
    limits=[Limit(thresholds.FILL_RATIO, "yellow")],
    no_value="no model yet",
)
SELF_EVICTIONS = Panel(
    3,
    "Self-evictions",
    number(),
    [
        Query(
            f"max(max_over_time({increase('samovar_snapshot_self_evictions_total', window='30m')}[24h:5m]))",
            "within 30 minutes",
        )
    ],
    unit="short",
    width=4,
    height=6,
    decimals=0,
    shows="How often a conversation pushed out its own live state: the most within 30 minutes, in the last 24 hours, at one server.",
    act="the store does not hold one conversation's turns: raise the limit that Removals by reason names, at least to the recommended budget.",
    limits=[Limit(thresholds.SELF_EVICTIONS)],
)
BUDGET = Panel(
    4,
    "Budget",
    number(graph=False),
    [
        Query(f"max({_RECOMMENDED} > on (job, instance) {_CAPACITY})", "raise to"),
        Query(f"max({_RECOMMENDED} <= on (job, instance) ({_CAPACITY} > 0))", "recommended"),
        Query(f"max({_CAPACITY} > 0)", "configured"),
    ],
    unit="bytes",
    width=10,
    height=6,
    shows="What would be right beside what is configured, a server; of several servers the largest. `recommended` holds the conversations there are, as far as memory goes. It is called `raise to` where it is more than what is configured.",
    act="set `snapshots.capacity_bytes` to the red number. Where memory does not allow it, see Each server for what it does allow, and lower the time to live or add a server.",
    colors={"raise to": "red", "recommended": "green", "configured": "text"},
    no_value="no model yet",
)
SERVERS = Panel(
    5,
    "Each server",
    grid("instance"),
    [
        Query(
            " or ".join(
                named(expression, "column", column)
                for column, expression in {
                    "held": total(series("samovar_snapshot_bytes"), "instance"),
                    "configured": total(_CAPACITY, "instance"),
                    "recommended": total(_RECOMMENDED, "instance"),
                    "memory has": total(series("samovar_snapshot_available_bytes"), "instance"),
                    "entries": total(series("samovar_snapshot_entries"), "instance"),
                    "self-evictions": total(increase("samovar_snapshot_self_evictions_total"), "instance"),
                    "hit ratio": share(
                        total(increase(_REUSED), "instance"), total(increase(_PROMPTS), "instance")
                    ),
                }.items()
            ),
            "",
        )
    ],
    unit="bytes",
    width=24,
    height=5,
    column_units={"entries": "short", "self-evictions": "short", "hit ratio": "percentunit"},
    shows="The verdict a server: stores are not shared. `memory has` is what the model and its requests leave for the store; hit ratio and self-evictions are over the time shown.",
    act="choose the server with the worst line above and read on for it alone.",
    no_value="unknown",
)

TOKENS = Panel(
    6,
    "Prompt tokens",
    lines(stacked=True),
    [
        Query(total(rate("samovar_prompt_tokens_total"), "source"), "{{source}}"),
    ],
    unit="short",
    width=12,
    height=8,
    shows="Prompt tokens a second that came out of the store, on top of those that were computed.",
    act="`computed` that grows while `cached` does not is work that the store could have saved: go on with Who leaves, and why, below.",
    colors={"computed": "orange", "cached": "green"},
)
SAVED = Panel(
    7,
    "Waiting time saved",
    lines(),
    [
        Query(
            f"({mean(_FIRST, _MISS)} - {mean(_FIRST, _HIT)}) * {total(rate(f'{_FIRST}_count', _HIT))}",
            "saved",
        )
    ],
    unit="s",
    width=12,
    height=8,
    lowest=None,
    shows="Seconds of waiting for a first token that hits save in each second, all users together: the mean of misses less the mean of hits, times the hits. It has no value while there are no misses to compare with.",
    act="near zero with many hits: prompts are short, and memory may be worth more elsewhere. Below zero, hits are longer prompts than misses, and the comparison says nothing.",
    colors={"saved": "green"},
)

BYTES = Panel(
    8,
    "Bytes and capacity",
    lines(stacked=True),
    [
        Query(total(series("samovar_snapshot_bytes"), "origin"), "{{origin}}"),
        Query(total(_CAPACITY), "capacity"),
        Query(total(_RECOMMENDED), "recommended"),
    ],
    unit="bytes",
    width=12,
    height=8,
    shows="What the store holds, by where it was taken, under its limit; the sum of the chosen servers, so choose one to see which limit it is at.",
    act="flat at `capacity`: this limit binds. Far below it while Removals by reason shows `lru_entries` or `lru_arrays`: another limit binds, and more bytes will not help. Never near it: memory can be given back.",
    colors={
        "boundary": "blue",
        "completion": "purple",
        "system": "yellow",
        "capacity": "red",
        "recommended": "green",
    },
    dashed=["capacity", "recommended"],
)
ENTRIES = Panel(
    9,
    "Entries and their limit",
    lines(stacked=True),
    [
        Query(total(series("samovar_snapshot_entries"), "origin"), "{{origin}}"),
        Query(total(series("samovar_snapshot_max_entries")), "limit"),
    ],
    unit="short",
    width=12,
    height=8,
    shows="How many snapshots the store holds, under their limit; the sum of the chosen servers.",
    act="flat at `limit` with bytes to spare: raise `snapshots.max_entries`.",
    colors={"boundary": "blue", "completion": "purple", "system": "yellow", "limit": "red"},
    dashed=["limit"],
)
