"""The alerts about requests: turned away, failed, or slow to begin."""

from grafana.source import thresholds
from grafana.source.alert import OVERVIEW, Alert, Fact, Panel, Severity, Shown
from grafana.source.recordings import REUSE


def _requests(window: str, matcher: str = "") -> str:
    return f"sum without (route, outcome) (increase(samovar_requests_total{matcher}[{window}]))"


_REFUSED, _ANSWERED = _requests("5m", '{outcome="refused"}'), _requests("5m")
_FAILED, _ANSWERED_10M = _requests("10m", '{outcome="failed"}'), _requests("10m")
_BEGUN = "sum without (cache) (increase(samovar_time_to_first_token_seconds_count[10m]))"

QUEUE_FULL = Alert(
    name="SamovarQueueFull",
    severity=Severity.WARNING,
    value="samovar_requests_waiting / (samovar_requests_max_waiting > 0)",
    comparison=">",
    threshold=thresholds.QUEUE_RATIO,
    hold="5m",
    keep="5m",
    summary="The queue is as good as full.",
    description="{instance} has {value} of its queue taken: the next burst of requests is refused.",
    runbook="requests",
    panel=Panel(OVERVIEW, "Running and waiting"),
    shown=Shown.RATIO,
)

REQUESTS_REFUSED = Alert(
    name="SamovarRequestsRefused",
    severity=Severity.WARNING,
    value=f"{_REFUSED} / {_ANSWERED}",
    comparison=">",
    threshold=thresholds.REFUSED_RATIO,
    hold="5m",
    keep="5m",
    summary="Requests are turned away.",
    description="{instance} turned away {value} of its requests in five minutes, with 429 or 503.",
    runbook="requests",
    panel=Panel(OVERVIEW, "Requests by outcome"),
    shown=Shown.RATIO,
    conditions=(f"and {_ANSWERED} > {thresholds.MIN_REQUESTS}",),
)

ERRORS_HIGH = Alert(
    name="SamovarErrorsHigh",
    severity=Severity.CRITICAL,
    value=f"{_FAILED} / {_ANSWERED_10M}",
    comparison=">",
    threshold=thresholds.ERROR_RATIO,
    hold="5m",
    keep="10m",
    summary="Requests fail by the server's fault.",
    description="{instance} failed {value} of its requests in ten minutes.",
    runbook="requests",
    panel=Panel(OVERVIEW, "Requests by outcome"),
    shown=Shown.RATIO,
    conditions=(f"and {_FAILED} > {thresholds.FAILURES}",),
)

TTFT_HIGH = Alert(
    name="SamovarTTFTHigh",
    severity=Severity.WARNING,
    value=(
        "histogram_quantile(0.95,"
        " sum without (cache) (rate(samovar_time_to_first_token_seconds_bucket[10m])))"
    ),
    comparison=">",
    threshold=thresholds.FIRST_TOKEN_SECONDS,
    hold="10m",
    keep="10m",
    summary="Replies begin late.",
    description=(
        "On {instance} one reply in twenty begins after {value} or later; {reused} of the prompt tokens of"
        " the last half hour came out of the store."
    ),
    runbook="requests",
    panel=Panel(OVERVIEW, "Time to first token"),
    shown=Shown.SECONDS,
    conditions=(f"and {_BEGUN} > {thresholds.MIN_REQUESTS}",),
    facts=(Fact("reused", REUSE.name, Shown.RATIO),),
)

REQUEST_ALERTS = (QUEUE_FULL, REQUESTS_REFUSED, ERRORS_HIGH, TTFT_HIGH)
