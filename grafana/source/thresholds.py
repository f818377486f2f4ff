"""The one table of the values at which something is wrong; it knows no query, alert or panel.

Alerts fire at these values and panels turn red at them, so that a picture and a page never disagree.
Only Prometheus' own durations are not here: how long a condition has to hold stands with its alert.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Threshold:
    """A limit: `value` in `unit` (ratio, seconds, or what is counted), and why it is this value."""

    value: float
    unit: str
    why: str

    def __str__(self) -> str:
        """The value as a query has it: without a needless fraction."""
        return f"{self.value:g}"

    @property
    def percent(self) -> str:
        """A ratio as a person reads it."""
        return f"{100 * self.value:g}%"


MEMORY_RATIO = Threshold(
    0.92,
    "ratio",
    "Above it one long prompt can take the rest, and the system ends the process.",
)
QUEUE_RATIO = Threshold(
    0.9, "ratio", "The next burst is refused; below it the queue does what it is there for."
)
REFUSED_RATIO = Threshold(
    0.05, "ratio", "One request in twenty turned away is more than clients' retries can hide."
)
FIRST_TOKEN_SECONDS = Threshold(
    30,
    "seconds",
    "A cold prompt of many thousand tokens takes this long on a laptop; most are warm.",
)
ERROR_RATIO = Threshold(
    0.02, "ratio", "Failures are ours alone: a healthy server has none, and one in fifty is a pattern."
)
FAILURES = Threshold(2, "requests", "One failed request is a line in the log; the third is a pattern.")
RESTARTS = Threshold(
    2, "restarts", "Two are an upgrade and a change of mind; the third within the window is a loop."
)
SELF_EVICTIONS = Threshold(
    3,
    "evictions",
    "One odd turn may push its own past out; more is a budget that holds too little.",
)
CAPACITY_REMOVALS = Threshold(
    18, "evictions", "Fewer than one in a hundred seconds cannot be told from a store that is simply in use."
)
GHOST_RATIO = Threshold(
    0.1, "ratio", "One lookup in ten that more memory would have served is a wait that people notice."
)
HIT_COLLAPSE_RATIO = Threshold(
    0.5, "ratio", "A store that gives half of what it gave the day before has lost more than chance takes."
)
HIT_BASELINE_RATIO = Threshold(
    0.2, "ratio", "A store that reused less than this had little to lose, and half of little is chance."
)
DIVERGED_RATIO = Threshold(
    0.4, "ratio", "Single users edit their messages; two lookups in five is a program that does."
)
IDLE_FACTOR = Threshold(
    4,
    "ratio",
    "What never came up to a quarter in a whole week is memory that others could use.",
)
FILL_RATIO = Threshold(
    0.9, "ratio", "The store is as good as full: the next snapshot pushes another one out."
)
MIN_LOOKUPS = Threshold(20, "lookups", "A ratio of fewer is chance.")
MIN_REQUESTS = Threshold(20, "requests", "A quantile or a ratio of fewer is chance.")
COLD_START_SECONDS = Threshold(
    900, "seconds", "A store that was just started is empty, and every lookup in it misses."
)
ANSWERS = Threshold(
    1, "targets", "Prometheus notes 1 for a scrape that was answered, 0 for one that was not."
)
ANY_TOKENS = Threshold(
    1, "tokens", "An engine that works computes hundreds in minutes, be the prompt ever so long."
)
NONE = Threshold(0, "events", "A healthy server has none of these.")
STALE_STEP_SECONDS = Threshold(
    60,
    "seconds",
    "A step takes tens of milliseconds, and a slow prompt's chunk a few seconds; this is neither.",
)
