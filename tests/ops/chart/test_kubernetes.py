"""What the chart makes is valid in every Kubernetes it is for, down to the last key."""

import copy
import re
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.ops.chart.helm import (
    CHART,
    CI_VALUES,
    NEWEST,
    OLDEST,
    HelmError,
    objects,
    objects_of,
    only,
    render,
    rendered,
)
from tests.ops.chart.strictly import faults_of


@pytest.mark.parametrize("kubernetes", [OLDEST, NEWEST])
@pytest.mark.parametrize("values", CI_VALUES)
def test_every_object_is_strictly_valid(values: str, kubernetes: str):
    """No object has a key, a type or a value that its kind does not know; custom resources included."""
    made = objects(rendered(values, kubernetes))

    assert made
    assert [fault for item in made for fault in faults_of(item, kubernetes)] == []


def test_the_versions_are_those_the_chart_claims_and_the_newest_known():
    """Chart.yaml claims the oldest version that is tested, and the newest tested is the newest there is."""
    claimed = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))["kubeVersion"]

    assert claimed == f">={OLDEST}.0-0"
    assert kubernetes_validate.latest_version().startswith(f"{NEWEST}.")


def test_an_older_kubernetes_is_refused():
    """Helm does not make the chart for a Kubernetes before the oldest."""
    with pytest.raises(HelmError, match="incompatible"):
        render(kubernetes="1.29")


def test_every_template_is_tried():
    """Each template makes an object with some file of ci/, so none escapes the checks."""
    templates = {path.name for path in (CHART / "templates").glob("*.yaml")}
    used = {
        name for values in CI_VALUES for name in re.findall(r"# Source: \S+/(\S+\.yaml)", rendered(values))
    }

    assert used == templates


def test_a_misspelt_key_is_refused_in_every_kind():
    """The check of each kind knows its keys: one more, on top of the object or its spec, is a fault."""
    twins = {item["kind"]: copy.deepcopy(item) for values in CI_VALUES for item in objects_of(values)}
    for twin in twins.values():
        twin.get("spec", twin)["misspelt"] = {}

    assert [kind for kind, twin in twins.items() if not faults_of(twin, NEWEST)] == []


@pytest.mark.parametrize(
    ("values", "kind", "path", "value"),
    [
        ("default", "Deployment", "spec.template.spec.containers.0.imagePullPolcy", "Always"),
        ("default", "Deployment", "spec.replicas", "three"),
        ("default", "Deployment", "spec.template.spec.containers", None),
        ("default", "Service", "spec.ports.0.port", None),
        ("hub", "HorizontalPodAutoscaler", "spec.maxReplicas", None),
        ("hub", "ServiceMonitor", "spec.endpoints.0.scrapeTimout", "1s"),
        ("hub", "ServiceMonitor", "spec.endpoints.0.interval", "soon"),
        ("hub", "PrometheusRule", "spec.groups.0.rules.0.expr", None),
        ("gpu", "PodMonitor", "spec.podMetricsEndpoints.0.relabelings.0.action", "rename"),
        ("gpu", "ScaledObject", "spec.triggers.0.type", None),
        ("gpu", "HTTPRoute", "spec.rules.0.timeouts.request", "an hour"),
        ("gpu", "BackendTrafficPolicy", "spec.loadBalancer.type", "RoundRobbin"),
        ("keys", "Secret", "stringData", ["a key"]),
        ("keys", "ServiceMonitor", "spec.endpoints.0.authorization.credentials.key", None),
        ("keys", "ServiceMonitor", "spec.endpoints.0.tlsConfig.ca.configmap", {}),
        ("keys", "BackendTLSPolicy", "spec.validation.wellKnownCACertificates", "System"),
        ("macs", "BackendTLSPolicy", "spec.validation.hostname", None),
        ("macs", "ScrapeConfig", "spec.staticConfigs.0.targets", None),
        ("macs", "EndpointSlice", "endpoints.0.addresses", None),
        ("macs-istio", "DestinationRule", "spec.trafficPolicy.loadBalancer.consistentHash.header", "X"),
    ],
)
def test_a_wrong_value_is_refused(values: str, kind: str, path: str, value: object):
    """Misspelt keys deep inside, wrong types, values outside of a set and missing fields are each a fault."""
    twin = copy.deepcopy(only(objects_of(f"{values}-values.yaml"), kind))
    *way, last = path.split(".")
    holder: Any = twin
    for step in way:
        holder = holder[int(step)] if step.isdigit() else holder[step]
    if value is None:
        del holder[last]
    else:
        holder[last] = value

    assert faults_of(twin, NEWEST) != []


def test_a_kind_nobody_knows_is_refused():
    """An object without a schema is a fault, not something to pass over."""
    unknown = {"apiVersion": "example.com/v1", "kind": "Kettle", "metadata": {"name": "one"}}

    assert faults_of(unknown, NEWEST) != []
