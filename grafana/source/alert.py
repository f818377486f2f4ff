"""What an alert is: one number, compared with one threshold, under conditions. It knows no alert of ours.

`rules.py` makes Prometheus' rules of alerts, `alerting.py` Grafana's, which shows the number also where it
does not fire; the runbooks have a heading for each.
"""

from dataclasses import dataclass
from enum import StrEnum

from grafana.source.thresholds import Threshold


class Severity(StrEnum):
    """Who is told: somebody now, somebody tomorrow, or whoever looks."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


class Shown(StrEnum):
    """How a number is written for a person."""

    COUNT = "count"
    RATIO = "ratio"
    SECONDS = "seconds"
    BYTES = "bytes"


class OnError(StrEnum):
    """What Grafana does where the query itself fails."""

    ERROR = "Error"
    KEEP_LAST = "KeepLast"


@dataclass(frozen=True, slots=True)
class Panel:
    """Where to look: a dashboard's uid and a panel's title."""

    dashboard: str
    title: str


@dataclass(frozen=True, slots=True)
class Fact:
    """A further number that a description states, of the alert's own server."""

    name: str
    query: str
    shown: Shown


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert.

    `value` fires where it is `comparison` (< or >) `threshold` and all `conditions` hold; each of them
    begins with `and` or `unless`. `hold` and `keep` are Prometheus' `for` and `keep_firing_for`: how long it
    has to be so, and how long it has to be over, so that what comes and goes is one alert and not twenty.
    In `description`, `{instance}`, `{value}`, other `labels` and the names of `facts` are replaced; every
    fact has a value wherever the alert fires.
    """

    name: str
    severity: Severity
    value: str
    comparison: str
    threshold: Threshold
    hold: str
    summary: str
    description: str
    runbook: str
    panel: Panel
    shown: Shown = Shown.COUNT
    conditions: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()
    labels: tuple[str, ...] = ()
    keep: str = ""
    on_error: OnError = OnError.KEEP_LAST

    @property
    def slow(self) -> bool:
        """Whether it looks back so far that evaluating it each minute would be waste."""
        return self.hold.endswith("d")


JOB = 'job=~".*samovar.*"'
"""What `up` and the start time are chosen by: they carry no name of ours."""

OVERVIEW = "samovar-overview"
CACHE_SIZING = "samovar-cache-sizing"
INTERNALS = "samovar-internals"
