"""Rules and dashboards are those of the repository, and scaling asks for series that exist."""

import re
from typing import Any

import promql_parser
import pytest
import yaml

from app.telemetry.catalogue import CATALOGUE
from charts.source.copies import copies
from tests.ops.chart.conftest import Break
from tests.ops.chart.helm import CHART, ROOT, Object, objects, objects_of, only, render

RULES = yaml.safe_load((ROOT / "ops" / "prometheus" / "samovar.rules.yml").read_text(encoding="utf-8"))


def _rules(item: Object) -> list[dict[str, Any]]:
    return [rule for group in item["spec"]["groups"] for rule in group["rules"]]


def test_the_copies_are_the_repository_s_files():
    """The chart has a copy of the rules and of every dashboard, letter by letter, and no other file."""
    sources = [
        ROOT / "ops" / "prometheus" / "samovar.rules.yml",
        *(ROOT / "grafana" / "dashboards").glob("*.json"),
    ]
    texts = copies({str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in sources})
    there = {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
        for path in (CHART / "files").rglob("*")
        if path.is_file()
    }

    assert there == texts


def test_a_missing_copy_would_be_noticed():
    """Rules that nobody generates are an error, and a dashboard is copied as soon as there is one."""
    with pytest.raises(KeyError):
        copies({})
    assert copies({"ops/prometheus/samovar.rules.yml": "r", "grafana/dashboards/new.json": "{}"}) == {
        "charts/samovar/files/samovar.rules.yml": "r",
        "charts/samovar/files/dashboards/new.json": "{}",
    }


def test_the_rules_are_the_repository_s_rules():
    """With nothing disabled and no label added, the PrometheusRule is the file of rules."""
    assert only(objects_of("macs-values.yaml"), "PrometheusRule")["spec"] == RULES


def test_an_alert_can_be_left_out_and_labelled():
    """A disabled alert is gone and every other rule is there; alerts get the label, recordings do not."""
    rules = _rules(only(objects_of("hub-values.yaml"), "PrometheusRule"))
    expected = [rule for rule in _rules({"spec": RULES}) if rule.get("alert") != "SamovarAbsent"]

    assert len(rules) == len(_rules({"spec": RULES})) - 1
    assert rules == [
        rule | {"labels": rule["labels"] | {"team": "inference"}} if "alert" in rule else rule
        for rule in expected
    ]


def test_the_dashboards_are_the_repository_s_dashboards():
    """Each ConfigMap holds one dashboard, with the label that Grafana's sidecar looks for."""
    maps = [item for item in objects_of("hub-values.yaml") if item["kind"] == "ConfigMap"]
    held = {name: text.strip() for item in maps for name, text in item["data"].items()}
    written = (ROOT / "grafana" / "dashboards").glob("*.json")

    assert held == {path.name: path.read_text(encoding="utf-8").strip() for path in written}
    assert {item["metadata"]["labels"]["grafana_dashboard"] for item in maps} == {"1"}


@pytest.mark.parametrize(
    ("values", "kind", "place"),
    [
        ("hub-values.yaml", "ServiceMonitor", "endpoints"),
        ("gpu-values.yaml", "PodMonitor", "podMetricsEndpoints"),
    ],
)
def test_monitors_give_the_job_that_the_rules_look_for(values: str, kind: str, place: str):
    """The job label is set, whatever the release is called, and fits every matcher of jobs in the rules."""
    (endpoint,) = only(objects_of(values), kind)["spec"][place]
    (job,) = [rule["replacement"] for rule in endpoint["relabelings"] if rule["targetLabel"] == "job"]
    matchers = re.findall(r'\bjob=~"([^"]+)"', yaml.safe_dump(RULES))

    assert matchers
    assert all(re.fullmatch(matcher, job) for matcher in matchers)


def test_scrape_configs_give_the_same_labels_as_monitors():
    """Pods found without a monitor and hosts outside the cluster carry job, name and namespace."""
    of_pods = only(objects_of("hostpath-values.yaml"), "ScrapeConfig")["spec"]["relabelings"]
    of_hosts = only(objects_of("macs-values.yaml"), "ScrapeConfig")["spec"]["staticConfigs"]

    assert {"targetLabel": "job", "replacement": "samovar"} in of_pods
    assert {rule["targetLabel"] for rule in of_pods if "targetLabel" in rule} == {
        "job",
        "instance",
        "pod",
        "namespace",
    }
    assert {frozenset(group["labels"]) for group in of_hosts} == {frozenset({"job", "instance", "namespace"})}
    assert {group["labels"]["job"] for group in of_hosts} == {"samovar"}


def _queries(manifests: str) -> list[str]:
    triggers = only(objects(manifests), "ScaledObject")["spec"]["triggers"]
    return [trigger["metadata"]["query"] for trigger in triggers]


def _unknown(query: str) -> set[str]:
    """Series and values of closed labels in a query that the server does not have.

    Raises:
        ValueError: the query is none.
    """
    promql_parser.parse(query)
    series = {one.name: one for one in CATALOGUE}
    unknown = set()
    for name, matchers in re.findall(r"(samovar_\w+)\{([^}]*)\}", query):
        labels = {label.name: set(label.values) for label in series[name].labels} if name in series else {}
        unknown |= set() if name in series else {name}
        for label, value in re.findall(r'(\w+)="([^"]*)"', matchers):
            if label != "namespace" and value not in labels.get(label, ()):
                unknown.add(f"{label}={value}")
    return unknown


def test_scaling_asks_for_what_there_is():
    """Both queries parse, and ask for series and label values of the catalogue."""
    queries = _queries(render("gpu-values.yaml"))

    assert len(queries) == 2
    assert [unknown for query in queries for unknown in _unknown(query)] == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("samovar_requests_waiting{", "samovar_requests_queued{", "samovar_requests_queued"),
        ('capacity="2x"', 'capacity="3x"', "capacity=3x"),
    ],
)
def test_a_wrong_series_would_be_noticed(broken: Break, old: str, new: str, said: str):
    """A name or a label value that the server does not have is found in the query."""
    queries = _queries(render("gpu-values.yaml", chart=broken("templates/_scaling.tpl", old, new)))

    assert {unknown for query in queries for unknown in _unknown(query)} == {said}


def test_the_pods_of_the_release_are_the_ones_that_count():
    """The matcher of pods fits the names that a Deployment's pods get, and not those of a longer release."""
    (pattern,) = set(re.findall(r'pod=~"([^"]+)"', " ".join(_queries(render("gpu-values.yaml")))))

    assert re.fullmatch(pattern, "chat-6b7f9c8d5-x2x4z")
    assert not re.fullmatch(pattern, "chat-canary-6b7f9c8d5-x2x4z")


def test_scaling_in_waits_for_the_snapshots(values_file):
    """KEDA looks back over the time to live, or a day; Kubernetes' own windows are at their limits."""
    two_hours = values_file("autoscaling: {kind: KEDA, keda: {serverAddress: 'http://p:9090'}}")
    behaviours = [
        only(objects_of("hub-values.yaml"), "HorizontalPodAutoscaler")["spec"]["behavior"],
        only(objects_of("gpu-values.yaml"), "ScaledObject")["spec"]["advanced"][
            "horizontalPodAutoscalerConfig"
        ]["behavior"],
    ]

    assert all("[86400s:" in query for query in _queries(render("gpu-values.yaml")))
    assert all("[7200s:" in query for query in _queries(render(two_hours)))
    for behaviour in behaviours:
        assert behaviour["scaleDown"]["stabilizationWindowSeconds"] == 3600
        assert behaviour["scaleDown"]["policies"] == [{"type": "Pods", "value": 1, "periodSeconds": 1800}]


def test_the_autoscaler_and_not_the_chart_says_how_many_pods():
    """Where something scales, the Deployment has no number of replicas that an upgrade would put back."""
    for values in ("hub-values.yaml", "gpu-values.yaml"):
        assert "replicas" not in only(objects_of(values), "Deployment")["spec"]
    assert only(objects_of("default-values.yaml"), "Deployment")["spec"]["replicas"] == 1
