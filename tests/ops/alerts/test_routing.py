"""The example for the Alertmanager is valid, sends each severity its way, and silences what is explained."""

import re
from itertools import pairwise
from typing import Any

import pytest
import yaml

from grafana.source.alert import Alert, Severity
from grafana.source.alerts import ALERTS
from grafana.source.write import ROOT
from tests.support.prometheus import run, told

PATH = ROOT / "ops" / "alertmanager" / "alertmanager.yml"
CONFIG: dict[str, Any] = yaml.safe_load(PATH.read_text())
RECEIVERS = {Severity.CRITICAL: "page", Severity.WARNING: "ticket", Severity.INFO: "log"}
NAMES = frozenset(alert.name for alert in ALERTS)


def chosen(matchers: list[str]) -> frozenset[str]:
    """The alerts whose name all matchers let through."""
    left = NAMES
    for matcher in matchers:
        label, operator, value = re.fullmatch(r"(\w+)\s*(=~|!=|=)\s*\"?([^\"]+)\"?", matcher).groups()  # type: ignore[union-attr]
        assert label == "alertname"
        same = frozenset(
            name for name in NAMES if (re.fullmatch(value, name) if operator == "=~" else name == value)
        )
        assert same, f"{matcher} is no alert of ours"
        left = left - same if operator == "!=" else left & same
    return left


INHIBITED = [
    (source, target)
    for rule in CONFIG["inhibit_rules"]
    for source in chosen(rule["source_matchers"])
    for target in chosen(rule["target_matchers"])
]


def test_amtool_accepts_the_example(tmp_path: Any) -> None:
    """It is a valid configuration, and amtool does refuse one that is not."""
    assert "SUCCESS" in told("amtool", "check-config", str(PATH))
    broken = tmp_path / "alertmanager.yml"
    broken.write_text(PATH.read_text().replace("receiver: page", "receiver: nobody"))
    assert run("amtool", "check-config", str(broken)).returncode != 0


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_every_alert_goes_to_the_receiver_of_its_severity(alert: Alert) -> None:
    """amtool's own routing sends it there."""
    labels = [f"alertname={alert.name}", f"severity={alert.severity}", "job=samovar", "instance=mac-1"]
    receiver = RECEIVERS[alert.severity]
    told(
        *("amtool", "config", "routes", "test", f"--config.file={PATH}"),
        f"--verify.receivers={receiver}",
        *labels,
    )
    assert run(
        *("amtool", "config", "routes", "test", f"--config.file={PATH}", "--verify.receivers=nobody"), *labels
    ).returncode


def test_what_is_explained_is_silenced() -> None:
    """A server that is down has no other alert; nobody is told to raise a budget that does not fit."""
    assert {target for source, target in INHIBITED if source == "SamovarDown"} == NAMES - {"SamovarDown"}
    pairs = set(INHIBITED)
    assert ("SamovarMemoryNearLimit", "SamovarCacheBudgetTooSmall") in pairs
    assert ("SamovarMemoryNearLimit", "SamovarCacheThrashing") in pairs


def test_only_the_same_server_is_silenced() -> None:
    """A neighbour's trouble explains nothing."""
    assert all(rule["equal"] == ["job", "instance"] for rule in CONFIG["inhibit_rules"])


def test_nothing_silences_itself_or_its_own_cause() -> None:
    """No two alerts silence each other, or both would be silent; nothing more urgent is silenced by less."""
    pairs = set(INHIBITED)
    assert not [pair for pair in pairs if pair[::-1] in pairs]
    ranks = {alert.name: list(Severity).index(alert.severity) for alert in ALERTS}
    assert all(ranks[source] <= ranks[target] for source, target in pairs)


def test_the_more_urgent_the_sooner_again() -> None:
    """A page comes again before a ticket, a ticket before a line in a log."""
    minutes = {"h": 60, "m": 1}
    routes = {route["receiver"]: route for route in [*CONFIG["route"]["routes"], CONFIG["route"]]}
    again = [routes[RECEIVERS[severity]]["repeat_interval"] for severity in Severity]
    assert all(
        int(sooner[:-1]) * minutes[sooner[-1]] < int(later[:-1]) * minutes[later[-1]]
        for sooner, later in pairwise(again)
    )


def test_the_examples_hold_no_secret() -> None:
    """Receivers are addresses on this machine, without a name or a key."""
    urls = [hook["url"] for receiver in CONFIG["receivers"] for hook in receiver["webhook_configs"]]
    assert all(re.fullmatch(r"http://127\.0\.0\.1:\d+/\w+", url) for url in urls)
    assert not re.search(r"password|token|secret_key|bearer", PATH.read_text(), re.IGNORECASE)
