"""values.yaml, its schema and its README say the same, and values that make no sense are refused."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from app.settings.keys import all_keys
from charts.source.comments import comments_by_key
from charts.source.schema import values_schema
from charts.source.settings import SET_BY_THE_CHART
from charts.source.write import generated
from tests.ops.chart.helm import CHART, HelmError, render

VALUES_TEXT = (CHART / "values.yaml").read_text(encoding="utf-8")
VALUES = yaml.safe_load(VALUES_TEXT)
SCHEMA = values_schema()

Write = Callable[[str], Path]
DIGEST = "5f1b2c63f9d1e5d7c7e1e9a2a7b9f3be3a5c8f2f1d0c4b6a79880f1e2d3c4b5a"


def _closed_objects(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object of the schema whose keys are the chart's own."""
    if "properties" in schema:
        yield path, schema
        for key, inner in schema["properties"].items():
            yield from _closed_objects(inner, f"{path}.{key}" if path else key)
    for inner in (schema.get("items"), schema.get("additionalProperties")):
        if isinstance(inner, dict):
            yield from _closed_objects(inner, f"{path}[]")


def _keys(values: dict[str, Any], schema: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in values.items():
        yield f"{prefix}{key}"
        inner = schema.get("properties", {}).get(key, {})
        if "properties" in inner:
            yield from _keys(value, inner, f"{prefix}{key}.")


def test_the_generated_files_are_up_to_date():
    """values.schema.json and README.md are what `python -m charts.source.write` makes."""
    for path, text in generated().items():
        assert (CHART / path).read_text(encoding="utf-8") == text, path


def test_every_object_of_the_schema_is_closed():
    """No object whose keys are ours takes a key that it does not list."""
    assert [
        path for path, shape in _closed_objects(SCHEMA) if shape.get("additionalProperties") is not False
    ] == []


def test_every_value_is_in_the_schema_and_the_reverse():
    """values.yaml and the schema have the same keys, but for settings whose default is the server's own."""
    in_schema = {
        f"{path}.{key}" if path else key
        for path, shape in _closed_objects(SCHEMA)
        if "[]" not in path
        for key in shape["properties"]
    }
    in_values = set(_keys(VALUES, SCHEMA))

    assert in_values <= in_schema
    assert {key for key in in_schema - in_values if not key.startswith("settings.")} == set()


def test_every_setting_of_the_server_can_be_set():
    """`settings` has the server's own keys, each once, without those that `model` says."""
    (settings,) = (shape for path, shape in _closed_objects(SCHEMA) if path == "settings")
    offered = {
        f"{name}.{key}" if "properties" in inner else name
        for name, inner in settings["properties"].items()
        for key in inner.get("properties", [""])
    }

    assert offered == {key.dotted for key in all_keys()} - SET_BY_THE_CHART


def test_every_comment_belongs_to_a_value():
    """No line of description is left from a value that is gone."""
    keys = set(_keys(VALUES, SCHEMA))

    assert set(comments_by_key(VALUES_TEXT)) <= keys


def test_the_defaults_are_valid():
    """values.yaml keeps to its own schema."""
    assert list(Draft7Validator(SCHEMA).iter_errors(VALUES)) == []


@pytest.mark.parametrize(
    "text",
    ["# one\n# two\na: 1\n", "# file\nb: 1\n# of nothing\n- 1\n"],
)
def test_a_comment_out_of_place_is_refused(text: str):
    """A description of two lines, or above no key, is an error and not lost."""
    with pytest.raises(ValueError, match=r"values\.yaml:\d"):
        comments_by_key(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("replicas: 2", "replicas"),
        ("replicaCount: two", "replicaCount"),
        ("replicaCount: -1", "replicaCount"),
        ("image: {tagg: x}", "tagg"),
        ("image: {digest: sha256:12}", "digest"),
        ("image: {pullPolicy: Sometimes}", "pullPolicy"),
        ("fullnameOverride: Chat_Server", "fullnameOverride"),
        ("commonLabels: {app.kubernetes.io/name: other}", "app.kubernetes.io/name"),
        ("podLabels: {'a b': c}", "'a b'"),
        ("podLabels: {a: 1}", "podLabels"),
        ("model: {source: disk}", "source"),
        ("model: {source: hub}", "repository"),
        ("model: {source: hub, hub: {repository: no-owner}}", "repository"),
        ("model: {source: claim}", "claim"),
        ("model: {source: hostPath, hostPath: {path: relative}}", "hostPath"),
        ("model: {folder: ../etc}", "folder"),
        ("cache: {claim: {size: large}}", "size"),
        ("cache: {claim: {accessModes: [ReadOnlyMany]}}", "accessModes"),
        (f"auth: {{existingSecret: keys, keys: {{ann: {{sha256: '{DIGEST}'}}}}}}", "keys"),
        ("auth: {keys: {ann: {}}}", "sha256"),
        ("auth: {keys: {ann: {sha256: '9b74'}}}", "sha256"),
        (f"auth: {{keys: {{ann: {{sha256: '{DIGEST}', key: sk-samovar-in-clear}}}}}}", "'key'"),
        (f"auth: {{keys: {{ann: {{sha256: '{DIGEST}', scopes: [root]}}}}}}", "scopes"),
        (f"auth: {{keys: {{ann: {{sha256: '{DIGEST}', quota_bytes: 8 gigabytes}}}}}}", "quota_bytes"),
        (f"auth: {{keys: {{ann: {{sha256: '{DIGEST}', max_concurrent: 0}}}}}}", "max_concurrent"),
        (f"auth: {{keys: {{'a b': {{sha256: '{DIGEST}'}}}}}}", "'a b'"),
        ("auth: {existingSecret: keys, existingSecretKey: a/b}", "existingSecretKey"),
        ("tls: {enabled: true}", "existingSecret"),
        ("tls: {existingSecret: certificate}", "existingSecret"),
        ("settings: {auth: {key: sk-samovar-in-clear}}", "'key'"),
        ("settings: {server: {allow_unauthenticated: false}}", "allow_unauthenticated"),
        ("settings: {server: {tls_key: /secrets/tls.key}}", "tls_key"),
        ("settings: {snapshot: {ttl: 1}}", "snapshot"),
        ("settings: {snapshots: {time_to_live: 1}}", "time_to_live"),
        ("settings: {snapshots: {ttl: 2h}}", "ttl"),
        ("settings: {snapshots: {ttl: off}}", "ttl"),
        ("settings: {snapshots: {capacity_bytes: 8 gigabytes}}", "capacity_bytes"),
        ("settings: {server: {drain_seconds: 30s}}", "drain_seconds"),
        ("settings: {server: {port: 80}}", "port"),
        ("settings: {model: {path: /models}}", "path"),
        ("settings: {scheduler: {max_running: 0}}", "max_running"),
        ("settings: {telemetry: {otlp_endpoint: collector}}", "otlp_endpoint"),
        ("resources: {limits: {memory: 3 GiB}}", "memory"),
        ("resources: {claims: []}", "claims"),
        ("gpu: {count: 0}", "count"),
        ("strategy: {type: Canary}", "type"),
        ("strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 0}}", "rollingUpdate"),
        ("shutdown: {marginSeconds: 0}", "marginSeconds"),
        ("probes: {readiness: {path: /}}", "path"),
        ("service: {type: ExternalName}", "type"),
        ("service: {port: 70000}", "port"),
        ("service: {sessionAffinity: {seconds: 86401}}", "seconds"),
        ("publicPaths: []", "publicPaths"),
        ("publicPaths: [v1]", "publicPaths"),
        ("ingress: {enabled: true}", "hosts"),
        ("gateway: {enabled: true}", "parentRefs"),
        ("gateway: {sessionHash: istio}", "sessionHash"),
        ("gateway: {requestTimeout: 1 hour}", "requestTimeout"),
        ("networkPolicy: {ingress: []}", "ingress"),
        ("podDisruptionBudget: {minAvailable: 1}", "minAvailable"),
        ("podDisruptionBudget: {maxUnavailable: 0}", "maxUnavailable"),
        ("podDisruptionBudget: {maxUnavailable: 0%}", "maxUnavailable"),
        ("autoscaling: {kind: VPA}", "kind"),
        ("autoscaling: {kind: KEDA}", "serverAddress"),
        ("autoscaling: {minReplicas: 0}", "minReplicas"),
        ("metrics: {scrape: {kind: serviceMonitor}}", "kind"),
        ("metrics: {scrape: {interval: 30}}", "interval"),
        ("metrics: {scrape: {authorization: {}}}", "authorization"),
        ("metrics: {rules: {disabled: SamovarDown}}", "disabled"),
        ("externalHosts: {enabled: true}", "hosts"),
        ("externalHosts: {hosts: [{name: a}]}", "address"),
        ("externalHosts: {hosts: [{name: a, address: mac.local}]}", "address"),
        ("externalHosts: {hosts: [{name: a, address: 1.2.3.4, drain: true}]}", "drain"),
        ("tolerations: {}", "tolerations"),
        ("extraObjects: [{kind: ConfigMap}]", "extraObjects"),
    ],
)
def test_a_bad_value_is_refused_by_the_schema(values_file: Write, text: str, said: str):
    """Unknown keys, wrong types and values out of bounds stop the install, and the message names them."""
    with pytest.raises(HelmError, match=r"(?s)schema.*" + re.escape(said)):
        render(values_file(text))


MACS = "externalHosts: {enabled: true, hosts: [{name: a, address: 192.0.2.1}]}"
HTTPS = "tls: {enabled: true, existingSecret: certificate}"
ONE, OTHER = f"sha256: '{DIGEST}'", f"sha256: '{DIGEST[::-1]}'"
MONITORED = "metrics: {scrape: {kind: ServiceMonitor}}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{MACS}\nautoscaling: {{kind: HPA}}", "autoscaling"),
        (f"{MACS}\nmetrics: {{scrape: {{kind: ServiceMonitor}}}}", "kind"),
        (f"{MACS}\nauth: {{existingSecret: keys}}", "auth"),
        (f"{MACS}\ntls: {{enabled: true, existingSecret: certificate, serverName: a.example.com}}", "tls"),
        (f"{MACS}\ntls: {{enabled: true}}", "serverName"),
        (
            f"{HTTPS}\ngateway: {{enabled: true, parentRefs: [{{name: mesh}}], sessionHash: istio}}",
            "sessionHash",
        ),
        (f"auth: {{existingSecret: keys}}\n{MONITORED}", "metrics.scrape.keySecret.name: is empty"),
        (
            f"settings: {{auth: {{keys_file: /secrets/csi/keys.toml}}}}\n{MONITORED}",
            "metrics.scrape.keySecret.name: is empty",
        ),
        ("{auth: {existingSecret: keys}, settings: {auth: {keys_file: /a}}}", "there can be one"),
        (
            f"auth: {{keys: {{a: {{sha256: '{DIGEST}'}}, b: {{sha256: '{DIGEST.upper()}'}}}}}}",
            "auth.keys: a and b have the same sha256",
        ),
        (
            f"auth: {{keys: {{a: {{tenant: b, quota_bytes: 1GiB, {OTHER}}}, b: {{quota_bytes: 2, {ONE}}}}}}}",
            "auth.keys: the tenant b has the quotas 1GiB and 2;",
        ),
        ("fullnameOverride: 4u", "fullnameOverride: the Service would be called 4u;"),
        ("autoscaling: {minReplicas: 5}", "autoscaling.minReplicas: 5 is more than"),
        ("{replicaCount: 2, cache: {claim: {enabled: true}}}", "needs ReadWriteMany"),
        (
            "{settings: {telemetry: {metrics: false}}, metrics: {scrape: {kind: PodMonitor}}}",
            "settings.telemetry.metrics",
        ),
        (
            "{settings: {telemetry: {metrics: false}}, autoscaling: {kind: HPA}}",
            "settings.telemetry.metrics",
        ),
        (
            "externalHosts: {hosts: [{name: a, address: 1.1.1.1}, {name: a, address: 1.1.1.2}]}",
            "a is there twice",
        ),
        ("externalHosts: {enabled: true, hosts: [{name: a, address: '::1'}]}", "is not IPv4"),
        ("metrics: {rules: {enabled: true, disabled: [SamovarDwon]}}", "there is no alert SamovarDwon"),
    ],
)
def test_values_that_do_not_go_together_are_refused(values_file: Write, text: str, said: str):
    """What each value allows may still make no sense together; the message says what and why."""
    with pytest.raises(HelmError, match=re.escape(said)):
        render(values_file(text))
