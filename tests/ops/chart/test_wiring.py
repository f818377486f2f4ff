"""What one object says of another, of the server, or of its files is true."""

import re
from pathlib import Path

import pytest

from app.api.metrics import metrics
from app.api.probes import livez, readyz, startupz
from app.server import FAREWELL_SECONDS
from app.settings.keys import ENVIRONMENT_PREFIX, all_keys
from app.settings.layers import load
from tests.ops.chart.conftest import Break
from tests.ops.chart.helm import CI_VALUES, ROOT, Object, objects, objects_of, only, render, rendered

RUNS_PODS = [values for values in CI_VALUES if not values.startswith("macs")]


def _deployment(values: str) -> Object:
    return only(objects_of(values), "Deployment")


def _container(values: str) -> Object:
    (container,) = _deployment(values)["spec"]["template"]["spec"]["containers"]
    assert isinstance(container, dict)
    return container


def _environment(values: str) -> dict[str, str]:
    return {entry["name"]: entry["value"] for entry in _container(values)["env"]}


def _selected(selector: Object, labels: Object) -> bool:
    return bool(selector) and selector.items() <= labels.items()


@pytest.mark.parametrize("values", RUNS_PODS)
def test_whatever_selects_the_pods_finds_them(values: str):
    """Deployment, Service, budget, policy and monitors select labels that their targets have; no version."""
    made = objects_of(values)
    pod = _deployment(values)["spec"]["template"]["metadata"]["labels"]
    selectors = {
        "Deployment": lambda spec: spec["selector"]["matchLabels"],
        "Service": lambda spec: spec["selector"],
        "PodDisruptionBudget": lambda spec: spec["selector"]["matchLabels"],
        "NetworkPolicy": lambda spec: spec["podSelector"]["matchLabels"],
        "PodMonitor": lambda spec: spec["selector"]["matchLabels"],
        "ServiceMonitor": lambda spec: spec["selector"]["matchLabels"],
    }
    targets = {"ServiceMonitor": only(made, "Service")["metadata"]["labels"]}
    found = {
        item["kind"]: selectors[item["kind"]](item["spec"]) for item in made if item["kind"] in selectors
    }

    assert found.keys() >= {"Deployment", "Service"}
    for kind, selector in found.items():
        assert _selected(selector, targets.get(kind, pod)), kind
        assert selector.keys() == {"app.kubernetes.io/name", "app.kubernetes.io/instance"}, kind


@pytest.mark.parametrize("values", RUNS_PODS)
def test_one_port_by_one_name(values: str):
    """The server's port is the container's; Service, probes, policy and monitors lead there by name."""
    made = objects_of(values)
    container = _container(values)
    (port,) = container["ports"]
    (entrance,) = only(made, "Service")["spec"]["ports"]
    probes = [container[f"{probe}Probe"]["httpGet"]["port"] for probe in ("startup", "readiness", "liveness")]
    monitors = [
        endpoint["port"]
        for item in made
        for endpoint in item.get("spec", {}).get(
            "endpoints", item.get("spec", {}).get("podMetricsEndpoints", [])
        )
    ]
    policies = [
        allowed["port"]
        for item in made
        if item["kind"] == "NetworkPolicy"
        for rule in item["spec"]["ingress"]
        for allowed in rule["ports"]
    ]

    assert str(port["containerPort"]) == _environment(values)["SAMOVAR_SERVER__PORT"]
    assert {entrance["targetPort"], *probes, *monitors, *policies} == {port["name"]}


def test_routes_lead_to_the_service():
    """Ingress and HTTPRoute name the Service and a port that it has."""
    for values in ("hostpath-values.yaml", "gpu-values.yaml", "macs-values.yaml"):
        made = objects_of(values)
        service = only(made, "Service")
        (port,) = service["spec"]["ports"]
        for item in made:
            if item["kind"] == "HTTPRoute":
                (backend,) = item["spec"]["rules"][0]["backendRefs"]
                assert backend == {"name": service["metadata"]["name"], "port": port["port"]}
            if item["kind"] == "Ingress":
                for path in item["spec"]["rules"][0]["http"]["paths"]:
                    assert path["backend"]["service"] == {
                        "name": service["metadata"]["name"],
                        "port": {"name": port["name"]},
                    }


def test_the_paths_are_routes_of_the_server():
    """Each probe asks the route that answers its question, and scrapes go where the metrics are."""
    container = _container("default-values.yaml")
    asked = {
        probe: {container[f"{probe}Probe"]["httpGet"]["path"]}
        for probe in ("startup", "readiness", "liveness")
    }
    (endpoint,) = only(objects_of("hub-values.yaml"), "ServiceMonitor")["spec"]["endpoints"]
    (of_pod,) = only(objects_of("gpu-values.yaml"), "PodMonitor")["spec"]["podMetricsEndpoints"]
    static = only(objects_of("macs-values.yaml"), "ScrapeConfig")["spec"]
    checked = only(objects_of("macs-values.yaml"), "BackendTrafficPolicy")["spec"]["healthCheck"]["active"]

    assert asked == {"startup": startupz.paths, "readiness": readyz.paths, "liveness": livez.paths}
    assert {endpoint["path"], of_pod["path"], static["metricsPath"]} == metrics.paths
    assert {checked["http"]["path"]} == readyz.paths


def test_the_public_paths_are_the_inference_routes():
    """Every route for clients is let in by default, and none for operators: docs/http.md lists them all."""
    of_operators = ("/v1/cache/", "/v1/overview")
    table = (ROOT / "docs" / "http.md").read_text(encoding="utf-8").split("\n## ")[0]
    routes = set(re.findall(r"(?:GET|POST|DELETE|PUT) (/[^\s`]*)`", table))
    let_in = [
        match["path"]["value"]
        for match in only(objects_of("gpu-values.yaml"), "HTTPRoute")["spec"]["rules"][0]["matches"]
    ]

    def public(route: str) -> bool:
        return any(route == path or route.startswith(f"{path}/") for path in let_in)

    inference = {route for route in routes if route.startswith("/v1/") and not route.startswith(of_operators)}
    assert {route for route in routes if public(route)} == inference
    assert all(any(route == path for route in routes) for path in let_in)


@pytest.mark.parametrize("values", RUNS_PODS)
def test_the_server_accepts_its_environment(values: str, tmp_path: Path):
    """Every variable is a setting that the server knows, and all of them together start it."""
    environment = _environment(values)
    own = {name for name in environment if name.startswith(ENVIRONMENT_PREFIX)}

    loaded = load(
        {}, config=None, environ=environment, folder=tmp_path, system_file=tmp_path / "none" / "samovar.toml"
    )

    assert own <= {key.environment for key in all_keys()}
    assert loaded.warnings == ()
    assert set(loaded.provenance.values()) == {"default", *(f"env {name}" for name in own)}


def test_a_misspelt_setting_would_be_noticed(broken: Break):
    """A template that makes another name of a setting makes one that the server does not know."""
    chart = broken("templates/_settings.tpl", "SAMOVAR_%s__%s", "SAMOVAR_%s_%s")
    (container,) = only(objects(render(chart=chart)), "Deployment")["spec"]["template"]["spec"]["containers"]

    assert not {entry["name"] for entry in container["env"]} <= {key.environment for key in all_keys()} | {
        "XDG_CACHE_HOME",
        "XDG_STATE_HOME",
    }


@pytest.mark.parametrize("values", RUNS_PODS)
def test_the_pod_has_time_to_end(values: str):
    """The grace period covers the wait before SIGTERM, the drain, and the server's last words."""
    pod = _deployment(values)["spec"]["template"]["spec"]
    wait = pod["containers"][0].get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
    drain = float(_environment(values)["SAMOVAR_SERVER__DRAIN_SECONDS"])

    assert pod["terminationGracePeriodSeconds"] >= wait + drain + FAREWELL_SECONDS + 5


def test_a_new_version_of_the_chart_keeps_the_pods(broken: Break):
    """Nothing in the pod's template changes with the chart's version alone, so no snapshot is lost for it."""
    newer = only(
        objects(render(chart=broken("Chart.yaml", "version: 0.1.0", "version: 9.9.9"))), "Deployment"
    )

    assert newer["metadata"]["labels"]["helm.sh/chart"] == "samovar-9.9.9"
    assert newer["spec"]["template"] == _deployment("default-values.yaml")["spec"]["template"]


def test_a_changed_setting_replaces_the_pods(values_file):
    """A setting is part of the pod's template: an upgrade that changes one takes effect."""
    changed = render(values_file("settings: {snapshots: {ttl: 60}}"))

    assert (
        only(objects(changed), "Deployment")["spec"]["template"]
        != (_deployment("default-values.yaml")["spec"]["template"])
    )


def test_mounts_and_volumes_belong_together():
    """Each volume is mounted, and each mount is of a volume."""
    for values in RUNS_PODS:
        pod = _deployment(values)["spec"]["template"]["spec"]
        mounted = [mount["name"] for mount in pod["containers"][0]["volumeMounts"]]
        assert sorted(mounted) == sorted(volume["name"] for volume in pod["volumes"])


def test_affinity_lasts_as_long_as_snapshots():
    """A client's address is remembered as long as its snapshots live, or a day if they never expire."""
    lasting = {
        values: only(objects_of(values), "Service")["spec"]["sessionAffinityConfig"]["clientIP"][
            "timeoutSeconds"
        ]
        for values in ("default-values.yaml", "hub-values.yaml", "gpu-values.yaml")
    }

    assert lasting == {"default-values.yaml": 7200, "hub-values.yaml": 3600, "gpu-values.yaml": 86400}


@pytest.mark.parametrize("values", ["macs-values.yaml", "macs-istio-values.yaml"])
def test_external_hosts_are_scraped_and_balanced_and_nothing_is_scheduled(values: str):
    """No object runs anything; each host is an endpoint of the Service, and a target by its name."""
    made = objects_of(values)
    kinds = {item["kind"] for item in made}
    service, endpoints = only(made, "Service"), only(made, "EndpointSlice")
    (port,) = endpoints["ports"]
    scraped = {
        group["labels"]["instance"]: group["targets"]
        for group in only(made, "ScrapeConfig")["spec"]["staticConfigs"]
    }
    bracketed = "[{}]:{}" if endpoints["addressType"] == "IPv6" else "{}:{}"

    assert kinds.isdisjoint({"Deployment", "PersistentVolumeClaim", "PodDisruptionBudget", "NetworkPolicy"})
    assert "selector" not in service["spec"]
    assert endpoints["metadata"]["labels"]["kubernetes.io/service-name"] == service["metadata"]["name"]
    assert service["spec"]["ports"][0]["targetPort"] == port["port"]
    assert service["spec"]["ports"][0]["name"] == port["name"]
    assert scraped == {
        host["hostname"]: [bracketed.format(host["addresses"][0], port["port"])]
        for host in endpoints["endpoints"]
    }


def test_a_draining_host_gets_no_requests_and_is_still_scraped():
    """`draining` takes a host out of the Service and out of nothing else."""
    made = objects_of("macs-values.yaml")
    ready = {
        host["hostname"]: host["conditions"]["ready"] for host in only(made, "EndpointSlice")["endpoints"]
    }

    assert ready == {"studio-1": True, "studio-2": True, "studio-3": False}
    assert len(only(made, "ScrapeConfig")["spec"]["staticConfigs"]) == len(ready)


def test_the_collector_and_the_hub_can_be_reached():
    """The policy opens the collector's port, said or implied, and HTTPS where the hub is asked."""
    opened = {
        values: [
            port["port"]
            for rule in only(objects_of(values), "NetworkPolicy")["spec"]["egress"]
            for port in rule.get("ports", [])
        ]
        for values in ("default-values.yaml", "hub-values.yaml", "gpu-values.yaml")
    }

    assert opened == {
        "default-values.yaml": [53, 53],
        "hub-values.yaml": [53, 53, 443, 4318],
        "gpu-values.yaml": [53, 53, 443],
    }


def test_the_token_of_the_hub_is_a_file():
    """The Secret's key is mounted where the environment says the token is, and is in no variable."""
    pod = _deployment("hub-values.yaml")["spec"]["template"]["spec"]
    (mount,) = [mount for mount in pod["containers"][0]["volumeMounts"] if mount["name"] == "hub-token"]
    (volume,) = [volume for volume in pod["volumes"] if volume["name"] == "hub-token"]
    (item,) = volume["secret"]["items"]

    assert _environment("hub-values.yaml")["HF_TOKEN_PATH"] == f"{mount['mountPath']}/{item['path']}"
    assert "HF_TOKEN_PATH" not in _environment("gpu-values.yaml")


def test_every_object_is_in_the_namespace_of_the_release():
    """No object leaves it to chance where it goes."""
    for values in CI_VALUES:
        assert {item["metadata"]["namespace"] for item in objects_of(values)} == {"chat"}
        assert "kind: List" not in rendered(values)
