"""Makes Prometheus' rules file of the recordings and the alerts. It knows no alert of ours by name."""

from collections.abc import Mapping
from typing import Any

from grafana.source.alert import Alert, Fact, Shown
from grafana.source.alerts import ALERTS
from grafana.source.recordings import RECORDINGS
from grafana.source.yaml_text import yaml_text

PATH = "ops/prometheus/samovar.rules.yml"
RUNBOOKS = "docs/runbooks"
"""What every runbook_url begins with: a folder of this repository, until its owner serves it somewhere."""

_SHOWN: Mapping[Shown, str] = {
    Shown.COUNT: '{{ %s | printf "%%.0f" }}',
    Shown.RATIO: "{{ %s | humanizePercentage }}",
    Shown.SECONDS: "{{ %s | humanizeDuration }}",
    Shown.BYTES: "{{ %s | humanize1024 }}B",
}


def files() -> dict[str, str]:
    """Path in the repository → text."""
    return {PATH: yaml_text(document())}


def document() -> dict[str, Any]:
    """The rules: recordings, then alerts; what looks at a week is evaluated less often."""
    fast = [alert for alert in ALERTS if not alert.slow]
    slow = [alert for alert in ALERTS if alert.slow]
    return {
        "groups": [
            {"name": "samovar-recordings", "interval": "1m", "rules": _recordings()},
            {"name": "samovar-alerts", "interval": "1m", "rules": [_alert(alert) for alert in fast]},
            {"name": "samovar-capacity", "interval": "5m", "rules": [_alert(alert) for alert in slow]},
        ]
    }


def expression(alert: Alert) -> str:
    """What Prometheus evaluates: the value where it is over the threshold and every condition holds."""
    compared = f"{alert.value} {alert.comparison} {alert.threshold}"
    return "\n".join((compared, *alert.conditions))


def shown(value: str, shown_as: Shown) -> str:
    """A template that writes `value`, an expression of the template language, for a person."""
    return _SHOWN[shown_as] % value


def runbook_url(alert: Alert) -> str:
    """The alert's heading in its runbook."""
    return f"{RUNBOOKS}/{alert.runbook}.md#{alert.name.lower()}"


def _recordings() -> list[dict[str, str]]:
    return [{"record": recording.name, "expr": recording.query} for recording in RECORDINGS]


def _alert(alert: Alert) -> dict[str, Any]:
    words = {name: f"{{{{ $labels.{name} }}}}" for name in ("instance", *alert.labels)}
    words |= {"value": shown("$value", alert.shown)}
    words |= {fact.name: _asked(fact) for fact in alert.facts}
    rule = {
        "alert": alert.name,
        "expr": expression(alert),
        "for": alert.hold,
        "keep_firing_for": alert.keep,
        "labels": {"severity": alert.severity.value},
        "annotations": {
            "summary": alert.summary,
            "description": alert.description.format_map(words),
            "runbook_url": runbook_url(alert),
            "dashboard": alert.panel.dashboard,
            "panel": alert.panel.title,
        },
    }
    return {key: value for key, value in rule.items() if value != ""}


def _asked(fact: Fact) -> str:
    """A template that asks Prometheus for a fact about the alert's server as it writes the description."""
    # What cannot be told is NaN, which no comparison lets through.
    query = f"({fact.query}) >= 0 and on (job, instance) up{{job=%q,instance=%q}}"
    asked = f"{{{{ with printf `{query}` $labels.job $labels.instance | query }}}}"
    return f"{asked}{shown('. | first | value', fact.shown)}{{{{ else }}}}(unknown){{{{ end }}}}"
