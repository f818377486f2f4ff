"""What is committed is what the sources make, and says what an operator needs to be told."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import alerting as grafana

from grafana.source.alert import Alert
from grafana.source.alerts import ALERTS
from grafana.source.write import ROOT, generated, outdated, write
from tests.support.prometheus import run, told

RULES = ROOT / "ops" / "prometheus" / "samovar.rules.yml"
OF_FILES = {"dashboardUid", "panelId", "keepFiringFor"}
"""Keys of files that Grafana's API, which the SDK speaks, does not have under that name."""


def by_name(document: dict[str, Any], key: str) -> dict[str, dict[str, Any]]:
    """The rules of a file by name."""
    return {rule[key]: rule for group in document["groups"] for rule in group["rules"] if key in rule}


PROMETHEUS = by_name(yaml.safe_load(RULES.read_text()), "alert")
GRAFANA = by_name(yaml.safe_load((ROOT / "grafana/alerting/rules.yaml").read_text()), "title")


def test_every_generated_file_is_what_its_source_makes() -> None:
    """Nothing generated was changed by hand, and nothing was forgotten."""
    assert outdated(ROOT) == []


def test_a_change_by_hand_is_found(tmp_path: Path) -> None:
    """A file that differs in one number, and one that is missing, are named, and are written again."""
    assert set(write(tmp_path)) == set(generated())
    rules = tmp_path / "ops/prometheus/samovar.rules.yml"
    rules.write_text(rules.read_text().replace("> 0.92", "> 0.93"))
    (tmp_path / "docs/alerts.md").unlink()
    expected = {"ops/prometheus/samovar.rules.yml", "docs/alerts.md"}
    assert set(outdated(tmp_path)) == expected
    assert set(write(tmp_path)) == expected
    assert outdated(tmp_path) == []


def test_promtool_has_nothing_to_say(tmp_path: Path) -> None:
    """The rules pass every lint of promtool's, the example configuration finds them, and lint can fail."""
    told("promtool", "check", "rules", "--lint=all", "--lint-fatal", str(RULES))
    told("promtool", "check", "config", str(RULES.with_name("prometheus.yml")))
    twice = yaml.safe_load(RULES.read_text())
    twice["groups"][1]["rules"].append(twice["groups"][1]["rules"][0])
    broken = tmp_path / "rules.yml"
    broken.write_text(yaml.safe_dump(twice))
    assert run("promtool", "check", "rules", "--lint=all", "--lint-fatal", str(broken)).returncode != 0


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_every_alert_says_what_it_has_to(alert: Alert) -> None:
    """Severity, a summary of one sentence, a description, and a runbook with its heading and four answers."""
    rule = PROMETHEUS[alert.name]
    assert alert.name.startswith("Samovar")
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    told_of = rule["annotations"]
    assert re.fullmatch(r"[A-Z][^.{]+\.", told_of["summary"])
    assert "{{ $labels.instance }}" in told_of["description"] or alert.name == "SamovarAbsent"
    path, _, anchor = told_of["runbook_url"].partition("#")
    chapters = re.split(r"^## ", (ROOT / path).read_text(), flags=re.MULTILINE)[1:]
    (chapter,) = (text for text in chapters if text.partition("\n")[0].lower() == anchor)
    for answer in ("What it means.", "How to check.", "What to do.", "When to ignore it."):
        assert chapter.count(f"**{answer}**") == 1, answer


def test_runbooks_have_no_other_chapters() -> None:
    """An alert that went took its chapter with it; links between chapters lead to one."""
    pages = {page.name: page.read_text() for page in (ROOT / "docs/runbooks").glob("*.md")}
    ours = {alert.runbook + ".md" for alert in ALERTS}
    found = {name: re.findall(r"^## (.+)$", pages[name], re.MULTILINE) for name in ours}
    assert {(name, title) for name, titles in found.items() for title in titles} == {
        (f"{alert.runbook}.md", alert.name) for alert in ALERTS
    }
    anchors = {f"{name}#{title.lower()}" for name, titles in found.items() for title in titles}
    for name in ours:
        for page, anchor in re.findall(r"\]\(([\w.-]*)#([\w-]+)\)", pages[name]):
            assert f"{page or name}#{anchor}" in anchors


def test_every_alert_points_to_a_panel_that_is_there() -> None:
    """The dashboard with that uid has a panel with that title, and Grafana's rule has its number."""
    boards = [json.loads(path.read_text()) for path in (ROOT / "grafana/dashboards").glob("*.json")]
    panels = {(board["uid"], panel["title"]): panel["id"] for board in boards for panel in board["panels"]}
    for alert in ALERTS:
        where = PROMETHEUS[alert.name]["annotations"]
        number = panels[where["dashboard"], where["panel"]]
        rule = GRAFANA[alert.name]
        assert (rule["dashboardUid"], rule["panelId"]) == (where["dashboard"], number)


def test_grafana_has_the_same_alerts() -> None:
    """Name, severity, time and summary are those of Prometheus' rules; a stopped data source is told once."""
    assert set(GRAFANA) == set(PROMETHEUS)
    for name, rule in GRAFANA.items():
        twin = PROMETHEUS[name]
        assert rule["labels"] == twin["labels"]
        assert (rule["for"], rule.get("keepFiringFor")) == (twin["for"], twin.get("keep_firing_for"))
        for key in ("summary", "runbook_url"):
            assert rule["annotations"][key] == twin["annotations"][key]
    assert [name for name, rule in GRAFANA.items() if rule["execErrState"] == "Error"] == ["SamovarDown"]
    assert all(len(rule["uid"]) <= 40 for rule in GRAFANA.values())


@pytest.mark.parametrize("name", GRAFANA)
def test_grafanas_rules_have_the_shape_that_grafana_reads(name: str) -> None:
    """Its own SDK keeps every key; each expression refers to a query before it, and the condition is one."""
    rule = GRAFANA[name]
    read = json.loads(json.dumps(grafana.Rule.from_json(rule), cls=JSONEncoder))
    assert without_empty(read) == without_empty(
        {key: value for key, value in rule.items() if key not in OF_FILES}
    )
    known: set[str] = set()
    for query in rule["data"]:
        model = query["model"]
        assert model["refId"] == query["refId"] not in known
        if query["datasourceUid"] == "__expr__":
            assert model["expression"] in known
        known.add(query["refId"])
    assert rule["condition"] in known
    described = rule["annotations"]["description"]
    assert "$" not in described, "Grafana may take what follows for a variable of its environment"
    assert set(re.findall(r'index \.Values "(\w+)"', described)) <= known


def test_grafanas_rules_ask_the_data_source_that_is_provisioned() -> None:
    """Their data source is the Prometheus of grafana/provisioning, or an expression."""
    (provisioned,) = (
        source["uid"]
        for path in (ROOT / "grafana/provisioning/datasources").iterdir()
        for source in yaml.safe_load(path.read_text())["datasources"]
        if source["type"] == "prometheus"
    )
    asked = {query["datasourceUid"] for rule in GRAFANA.values() for query in rule["data"]}
    assert asked == {provisioned, "__expr__"}


def test_grafanas_policies_name_contact_points_that_are_there() -> None:
    """Each severity that is routed has a receiver, whose address comes from the environment."""
    folder = ROOT / "grafana/alerting"
    points = yaml.safe_load((folder / "contact-points.yaml").read_text())["contactPoints"]
    (policy,) = yaml.safe_load((folder / "policies.yaml").read_text())["policies"]
    named = {policy["receiver"], *(route["receiver"] for route in policy["routes"])}
    assert named == {point["name"] for point in points}
    urls = [receiver["settings"]["url"] for point in points for receiver in point["receivers"]]
    assert all(re.fullmatch(r"\$\{SAMOVAR_[A-Z]+_URL\}", url) for url in urls)


def test_a_wrong_key_in_a_rule_of_grafanas_is_found() -> None:
    """The round trip loses a key that Grafana does not have."""
    rule = {**GRAFANA["SamovarDown"], "noDataStat": "OK"}
    read = json.loads(json.dumps(grafana.Rule.from_json(rule), cls=JSONEncoder))
    assert "noDataStat" not in read


def without_empty(value: Any) -> Any:
    """`value` without what the SDK adds empty."""
    if isinstance(value, dict):
        kept = {key: without_empty(inner) for key, inner in value.items()}
        return {key: inner for key, inner in kept.items() if inner not in ("", None, 0, False, [], {})}
    return [without_empty(inner) for inner in value] if isinstance(value, list) else value
