"""Every alert, evaluated by promtool: it fires on its own trouble, and on nothing that lies next to it."""

import json
from pathlib import Path
from typing import Any

import pytest

from grafana.source.alerts import ALERTS
from tests.ops.alerts.case import GROUPS, Case
from tests.ops.alerts.cases import CASES
from tests.ops.alerts.healthy import server
from tests.support.prometheus import run

RULES = Path("ops/prometheus/samovar.rules.yml").resolve()
PARAMETERS = [
    pytest.param(name, case, id=f"{name}: {case.law}") for name, cases in CASES.items() for case in cases
]


def unit_test(name: str, case: Case) -> dict[str, Any]:
    """The file that promtool is given."""
    samples = case.minute // case.step + 10
    # What fires must not drag a healthy server along; where nothing fires, that shows nothing.
    alone = case.alone or case.bare or not (case.fires or "gone" in case.changes.values())
    series = {
        **server("mac-1", case.changes, samples=samples, bare=case.bare),
        **({} if alone else server("mac-2", {}, samples=samples)),
        **{series: text.replace("{n}", str(samples)) for series, text in case.everywhere.items()},
    }
    firing = {alert: 'instance="mac-1"' if alert != "SamovarAbsent" else "" for alert in case.fires}
    expected = [
        {"labels": "{" + ", ".join(filter(None, (f'alertname="{alert}"', where))) + "}", "value": 1}
        for alert, where in sorted(firing.items())
    ]
    test: dict[str, Any] = {
        "interval": f"{case.step}m",
        "input_series": [{"series": series, "values": values} for series, values in series.items()],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname, instance) (ALERTS{alertstate="firing"})',
                "eval_time": f"{case.minute}m",
                "exp_samples": expected,
            }
        ],
    }
    if case.told:
        (alert,) = (alert for alert in ALERTS if alert.name == name)
        labels = {"sink": "traces"} if "sink" in alert.labels else {}
        test["alert_rule_test"] = [
            {
                "eval_time": f"{case.minute}m",
                "alertname": name,
                "exp_alerts": [
                    {
                        "exp_labels": {
                            "severity": alert.severity.value,
                            "job": "samovar",
                            "instance": "mac-1",
                            **labels,
                        },
                        "exp_annotations": {
                            "summary": alert.summary,
                            "description": case.told,
                            "runbook_url": f"docs/runbooks/{alert.runbook}.md#{name.lower()}",
                            "dashboard": alert.panel.dashboard,
                            "panel": alert.panel.title,
                        },
                    }
                ],
            }
        ]
    return {
        "rule_files": [str(RULES)],
        "evaluation_interval": f"{case.step}m",
        "group_eval_order": GROUPS,
        "tests": [test],
    }


@pytest.mark.parametrize(("name", "case"), PARAMETERS)
def test_exactly_these_alerts_fire(tmp_path: Path, name: str, case: Case) -> None:
    """The server in trouble has the alerts of its case and no other; the healthy one beside it has none."""
    (tmp_path / "test.yml").write_text(json.dumps(unit_test(name, case)))
    done = run("promtool", "test", "rules", "test.yml", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_its_cases() -> None:
    """Each alert has a case that it fires on, and two at least that it does not fire on."""
    assert set(CASES) == {alert.name for alert in ALERTS}
    for name, cases in CASES.items():
        assert any(name in case.fires for case in cases)
        assert len([case for case in cases if name not in case.fires]) >= 2, name


def test_a_description_that_is_wrong_is_found(tmp_path: Path) -> None:
    """The check of descriptions checks: with other words promtool fails."""
    case = Case(
        "60 of 64 places are taken",
        {"samovar_requests_waiting": "60x{n}"},
        fires=("SamovarQueueFull",),
        told="mac-1 has 12% of its queue taken.",
    )
    (tmp_path / "test.yml").write_text(json.dumps(unit_test("SamovarQueueFull", case)))
    assert run("promtool", "test", "rules", "test.yml", folder=tmp_path).returncode == 1
