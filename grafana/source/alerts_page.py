"""Writes docs/alerts.md, so that no number and no alert in it is typed by hand."""

from grafana.source import thresholds
from grafana.source.alert import Alert
from grafana.source.alerts import ALERTS
from grafana.source.rules import expression
from grafana.source.thresholds import Threshold

PATH = "docs/alerts.md"

_INTRODUCTION = """\
# Alerts

Written by `python -m grafana.source.write` from `grafana/source`, as are the rules.

| file | for whom |
|---|---|
| [ops/prometheus/samovar.rules.yml](../ops/prometheus/samovar.rules.yml) | Prometheus 2.42 or newer: recording and alerting rules |
| [ops/prometheus/prometheus.yml](../ops/prometheus/prometheus.yml) | an example of a scrape configuration |
| [ops/alertmanager/alertmanager.yml](../ops/alertmanager/alertmanager.yml) | an example for the Alertmanager: routes by severity, and which alert silences which |
| [grafana/alerting/](../grafana/alerting/) | the same alerts as Grafana's own, for who runs no Alertmanager: copy to Grafana's `provisioning/alerting` |

Nothing fires because a full store evicts, or because conversations move on: the alerts are about evictions that cost somebody something. Each
names what to do in its [runbook](runbooks/), and a description of a store that is too small says which capacity would be right. Labels that tell servers
apart stay on every alert; the annotation `runbook_url` begins with the folder in this repository, so put the address of your copy before it.

`critical` is for somebody now, `warning` for somebody in the next days, `info` for who looks. The alerts of the store leave out a server's first 15
minutes by `process_start_time_seconds`; where a platform does not tell it, they are not left out. `SamovarRestartLoop` needs it.
"""


def files() -> dict[str, str]:
    """Path in the repository → text."""
    return {PATH: page()}


def page() -> str:
    """The whole page."""
    return "\n".join(
        [
            _INTRODUCTION,
            "| alert | severity | after | what is wrong |",
            "|---|---|---|---|",
            *(_row(alert) for alert in ALERTS),
            "",
            "## Thresholds",
            "",
            "Panels turn red at the same values.",
            "",
            "| name | value | why |",
            "|---|---|---|",
            *(f"| `{name}` | {value} {value.unit} | {value.why} |" for name, value in _thresholds()),
            "",
            "## Conditions",
            "",
            *(line for alert in ALERTS for line in _condition(alert)),
        ]
    )


def _row(alert: Alert) -> str:
    link = f"[{alert.name}](runbooks/{alert.runbook}.md#{alert.name.lower()})"
    hold = "at once" if alert.hold == "0s" else alert.hold
    return f"| {link} | {alert.severity} | {hold} | {alert.summary} |"


def _thresholds() -> list[tuple[str, Threshold]]:
    return [(name, value) for name, value in vars(thresholds).items() if isinstance(value, Threshold)]


def _condition(alert: Alert) -> list[str]:
    return [f"`{alert.name}`", "", "```promql", expression(alert), "```", ""]
