"""Makes Grafana's own alert rules of the same alerts, as files it provisions, for who runs no Alertmanager.

Each rule asks for its number (A), takes the last value (B) and compares it (C); every further number that
its description states is asked for and reduced in the same way. Recorded series are written out, so that
these rules need none. Templates use `.Labels` and `.Values`: in a provisioned file Grafana may take a name
after a dollar sign for an environment variable.
"""

from collections.abc import Iterator
from typing import Any

from grafana.source.alert import Alert, Panel, Severity
from grafana.source.alerts import ALERTS
from grafana.source.dashboards import BOARDS
from grafana.source.recordings import inlined
from grafana.source.rules import runbook_url, shown
from grafana.source.yaml_text import yaml_text

RULES_PATH = "grafana/alerting/rules.yaml"
CONTACT_POINTS_PATH = "grafana/alerting/contact-points.yaml"
POLICIES_PATH = "grafana/alerting/policies.yaml"

DATASOURCE_UID = "prometheus"
"""The uid of the data source in grafana/provisioning."""

FOLDER = "Samovar"
_EXPRESSIONS = "__expr__"
_EVALUATOR = {"<": "lt", ">": "gt"}
# Of an instant query only its end counts; Grafana asks for a range all the same.
_RANGE = {"from": 600, "to": 0}

_CONTACT = {
    Severity.CRITICAL: "samovar-page",
    Severity.WARNING: "samovar-ticket",
    Severity.INFO: "samovar-log",
}


_NUMBERS = {
    Panel(board.uid, panel.title): panel.number
    for board in BOARDS
    for row in board.rows
    for panel in row.panels
}


def files() -> dict[str, str]:
    """Path in the repository → text."""
    return {
        RULES_PATH: yaml_text(rules()),
        CONTACT_POINTS_PATH: yaml_text(contact_points()),
        POLICIES_PATH: yaml_text(policies()),
    }


def rules() -> dict[str, Any]:
    """The rule groups, one for each interval at which they are evaluated."""
    fast = [alert for alert in ALERTS if not alert.slow]
    slow = [alert for alert in ALERTS if alert.slow]
    return {
        "apiVersion": 1,
        "groups": [
            _group("samovar-alerts", "1m", fast),
            _group("samovar-capacity", "5m", slow),
        ],
    }


def contact_points() -> dict[str, Any]:
    """An example: one webhook for each severity, its address from the environment of Grafana."""
    return {
        "apiVersion": 1,
        "contactPoints": [
            {
                "orgId": 1,
                "name": name,
                "receivers": [
                    {
                        "uid": name,
                        "type": "webhook",
                        "settings": {
                            "url": f"${{{_variable(name)}}}",
                            "httpMethod": "POST",
                        },
                    }
                ],
            }
            for name in _CONTACT.values()
        ],
    }


def policies() -> dict[str, Any]:
    """An example: who is told what, and how often again. It replaces the whole policy tree of Grafana."""
    return {
        "apiVersion": 1,
        "policies": [
            {
                "orgId": 1,
                "receiver": _CONTACT[Severity.INFO],
                "group_by": ["alertname", "instance"],
                "group_wait": "30s",
                "group_interval": "5m",
                "repeat_interval": "24h",
                "routes": [
                    _route(Severity.CRITICAL, repeat="1h"),
                    _route(Severity.WARNING, repeat="12h"),
                ],
            }
        ],
    }


def _variable(contact: str) -> str:
    return contact.upper().replace("-", "_") + "_URL"


def _route(severity: Severity, *, repeat: str) -> dict[str, Any]:
    return {
        "receiver": _CONTACT[severity],
        "object_matchers": [["severity", "=", severity.value]],
        "repeat_interval": repeat,
    }


def _group(name: str, interval: str, alerts: list[Alert]) -> dict[str, Any]:
    return {
        "orgId": 1,
        "name": name,
        "folder": FOLDER,
        "interval": interval,
        "rules": [_rule(alert) for alert in alerts],
    }


def _rule(alert: Alert) -> dict[str, Any]:
    words = {name: f"{{{{ .Labels.{name} }}}}" for name in ("instance", *alert.labels)}
    words["value"] = shown(_value_of("B"), alert.shown)
    words |= {fact.name: shown(_value_of(_reduced(fact.name)), fact.shown) for fact in alert.facts}
    rule = {
        "uid": alert.name.lower(),
        "title": alert.name,
        "condition": "C",
        "data": [*_condition(alert), *_facts(alert)],
        "dashboardUid": alert.panel.dashboard,
        "panelId": _NUMBERS[alert.panel],
        # No value: a condition does not hold, or there is no server, of which SamovarAbsent tells.
        "noDataState": "OK",
        "execErrState": alert.on_error.value,
        "for": alert.hold,
        "keepFiringFor": alert.keep,
        "annotations": {
            "summary": alert.summary,
            "description": alert.description.format_map(words),
            "runbook_url": runbook_url(alert),
        },
        "labels": {"severity": alert.severity.value},
        "isPaused": False,
    }
    return {key: value for key, value in rule.items() if value != ""}


def _condition(alert: Alert) -> Iterator[dict[str, Any]]:
    yield _query("A", "\n".join((f"({alert.value})", *alert.conditions)))
    yield _reduce("B", "A")
    yield {
        "refId": "C",
        "relativeTimeRange": _RANGE,
        "datasourceUid": _EXPRESSIONS,
        "model": {
            "refId": "C",
            "type": "threshold",
            "expression": "B",
            "conditions": [
                {
                    "evaluator": {
                        "type": _EVALUATOR[alert.comparison],
                        "params": [alert.threshold.value],
                    }
                }
            ],
        },
    }


def _facts(alert: Alert) -> Iterator[dict[str, Any]]:
    for fact in alert.facts:
        yield _query(fact.name, fact.query)
        yield _reduce(_reduced(fact.name), fact.name)


def _reduced(name: str) -> str:
    return f"last_{name}"


def _value_of(ref_id: str) -> str:
    return f'(index .Values "{ref_id}").Value'


def _query(ref_id: str, query: str) -> dict[str, Any]:
    return {
        "refId": ref_id,
        "relativeTimeRange": _RANGE,
        "datasourceUid": DATASOURCE_UID,
        "model": {"refId": ref_id, "expr": inlined(query), "instant": True, "range": False},
    }


def _reduce(ref_id: str, of: str) -> dict[str, Any]:
    return {
        "refId": ref_id,
        "relativeTimeRange": _RANGE,
        "datasourceUid": _EXPRESSIONS,
        "model": {"refId": ref_id, "type": "reduce", "expression": of, "reducer": "last"},
    }
