"""The dashboard that answers what budget would be right, in the order in which it is read."""

from grafana.source.dashboards import cache_departures as departures
from grafana.source.dashboards import cache_turns as turns
from grafana.source.dashboards import cache_verdict as verdict
from grafana.source.frame import Board, Row

CACHE_SIZING = Board(
    "samovar-cache-sizing",
    "Samovar / Cache sizing",
    "Is the snapshot store's budget right, what would be right, who evicts whom, and why did a turn not hit?"
    " Read it from the top; each row answers the question in its heading.",
    [
        Row(
            "Is the budget right, and what would be right?",
            [verdict.HIT_RATIO, verdict.FILL, verdict.SELF_EVICTIONS, verdict.BUDGET, verdict.SERVERS],
        ),
        Row("What is the store worth?", [verdict.TOKENS, verdict.SAVED]),
        Row("Which limit binds?", [verdict.BYTES, verdict.ENTRIES]),
        Row("Who leaves, and why?", [departures.REMOVALS, departures.EVICTED_WHOM, departures.LEDGER]),
        Row("Do they come back after they were pushed out?", [departures.GAPS, departures.REACH]),
        Row("What would more memory gain?", [departures.GHOST_HITS, departures.GAIN]),
        Row("What does one conversation take?", [turns.SIZES, turns.FIT]),
        Row("Is what is stored used?", [turns.UNUSED, turns.USES, turns.INSERTS]),
        Row("Why did a turn not hit?", [turns.MISSES, turns.DIVERGENCE, turns.DIVERGED_AT]),
        Row("Is a hit worth it, and what never gets in?", [turns.COST, turns.REJECTIONS]),
    ],
)
