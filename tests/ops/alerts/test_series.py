"""Everything that a rule asks for is in a scrape of a real server, and a name that changes is noticed."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from grafana.source.alerts import ALERTS
from grafana.source.recordings import RECORDINGS, inlined
from grafana.source.rules import expression
from grafana.source.write import ROOT
from tests.support.process import Samovar, samovar
from tests.support.prometheus import prometheus
from tests.support.promql import Exposition, exposition, faults, names, with_recorded

RECORDED = [(recording.name, recording.query) for recording in RECORDINGS]
QUERIES = {
    **dict(RECORDED),
    **{alert.name: expression(alert) for alert in ALERTS},
    **{f"{alert.name}, {fact.name}": fact.query for alert in ALERTS for fact in alert.facts},
}
PLATFORMS = {("samovar_device_memory_bytes", "kind", "footprint")}
"""What the rules know and not every platform tells."""


@pytest.fixture(scope="module")
def just_started(
    tiny_folder: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Samovar]:
    """A server that has not had a request yet."""
    folder = tmp_path_factory.mktemp("server")
    with samovar("--model", str(tiny_folder("llama")), folder=folder) as server:
        yield server


@pytest.fixture(scope="module")
def scrape(just_started: Samovar) -> str:
    """What it says."""
    return just_started.get("/metrics").text


def exposed(text: str) -> Exposition:
    """The scrape, what other platforms add to it, and what the recording rules make of it."""
    found = dict(exposition(text))
    for series, label, value in PLATFORMS:
        labels = found.get(series, {})
        if label in labels:
            found[series] = {**labels, label: labels[label] | {value}}
    return with_recorded(found, RECORDED)


def all_faults(text: str) -> list[str]:
    """What any rule asks for in vain."""
    there = exposed(text)
    return [
        f"{where}: {fault}"
        for where, query in QUERIES.items()
        for form in {query, inlined(query)}
        for fault in faults(form, there)
    ]


def test_a_scrape_has_all_that_the_rules_ask_for(scrape: str) -> None:
    """Each name, label and label value of each query of each rule is there from the first scrape."""
    assert all_faults(scrape) == []


def used() -> Iterator[str]:
    """Every series of ours that a rule reads."""
    for query in QUERIES.values():
        yield from (name for name in names(query) if name.startswith(("samovar_", "process_")))


@pytest.mark.parametrize("name", sorted(set(used())))
def test_a_renamed_series_is_noticed(scrape: str, name: str) -> None:
    """Where the server calls a series otherwise, the rules that read it are found."""
    family = re.sub(r"_(total|bucket|count|sum)$", "", name)
    renamed = re.sub(rf"\b{family}(?=[_ {{])", f"{family}_renamed", scrape)
    assert any(name in fault for fault in all_faults(renamed))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('reason="pressure"', 'reason="low_memory_now"'),
        ('outcome="diverged"', 'outcome="parted"'),
        ('capacity="4x"', 'capacity="4.0"'),
        ("outcome=", "result="),
        ("kind=", "type="),
        ('origin="', 'source="'),
    ],
)
def test_a_renamed_label_or_value_is_noticed(scrape: str, old: str, new: str) -> None:
    """Where a label or one of its values is called otherwise, the rules that go by it are found."""
    assert old in scrape
    assert all_faults(scrape.replace(old, new))


def test_the_rules_for_grafana_ask_for_the_same(scrape: str) -> None:
    """Grafana's copies ask for nothing but what is there, and need no recording rule."""
    there = exposition(scrape)
    rules = yaml.safe_load((ROOT / "grafana/alerting/rules.yaml").read_text())
    asked = [
        query["model"]["expr"]
        for group in rules["groups"]
        for rule in group["rules"]
        for query in rule["data"]
        if "expr" in query["model"]
    ]
    assert len(asked) == len(ALERTS) + sum(len(alert.facts) for alert in ALERTS)
    assert {fault for query in asked for fault in faults(query, there)} <= {
        f"{series} has no {label} like {value}" for series, label, value in PLATFORMS
    }


def test_a_server_that_was_just_started_is_in_no_trouble(just_started: Samovar, tmp_path: Path) -> None:
    """Before any request no number is NaN, which Grafana takes for trouble, and no alert has its reason."""
    config = {
        "global": {"scrape_interval": "200ms"},
        "scrape_configs": [
            {
                "job_name": "samovar",
                "static_configs": [{"targets": [just_started.url.removeprefix("http://")]}],
            }
        ],
    }
    with prometheus(config, tmp_path) as watcher:
        watcher.wait_for("count_over_time(up[1m]) > 5")
        values = {
            alert.name: [
                sample["value"][1]
                for sample in watcher.query(inlined("\n".join((f"({alert.value})", *alert.conditions))))
            ]
            for alert in ALERTS
        }
        assert values["SamovarDown"] == ["1"]
        assert not any("NaN" in found for found in values.values()), values
        assert [alert.name for alert in ALERTS if watcher.query(inlined(expression(alert)))] == []
