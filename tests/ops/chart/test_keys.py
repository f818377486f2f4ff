"""Keys get from the values to the server and to Prometheus."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings

from app.auth.key import Scope
from app.auth.key_file import FIELDS
from charts.source.schema import values_schema
from tests.ops.chart.conftest import Break
from tests.ops.chart.helm import CHART, HelmError, objects, objects_of, only, render, rendered
from tests.ops.chart.pod import Mounted, environment_of, keys_of, mounted, pod_template
from tests.ops.chart.values_strategy import values_strategy

Write = Callable[[str], Path]

DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
SCHEMA = values_schema()
UNAUTHENTICATED = "SAMOVAR_SERVER__ALLOW_UNAUTHENTICATED"
KEYS_FILE = "SAMOVAR_AUTH__KEYS_FILE"


def test_a_secret_of_keys_is_the_server_s_file(values_file: Write):
    """Its key, whatever it is called, is mounted where the environment says; the chart makes no Secret."""
    made = objects(render(values_file("auth: {existingSecret: keys-of-others, existingSecretKey: samovar}")))

    path = environment_of(made)[KEYS_FILE]

    assert mounted(made, path) == Mounted("keys-of-others", "samovar")
    assert "Secret" not in {item["kind"] for item in made}


def test_keys_of_the_values_are_the_server_s_file():
    """The chart's Secret is mounted, and what is in it is read as the keys that the values have."""
    made = objects_of("keys-values.yaml")
    ann, prometheus = keys_of(made)

    assert mounted(made, environment_of(made)[KEYS_FILE]) == Mounted(
        only(made, "Secret")["metadata"]["name"], "keys.toml"
    )
    assert (ann.name, ann.tenant, ann.quota_bytes) == ("ann", "research", 2**30)
    assert (ann.max_concurrent, ann.requests_per_minute) == (4, 60)
    assert (prometheus.name, prometheus.scopes) == ("prometheus", frozenset({Scope.METRICS}))


def test_a_key_of_the_values_can_say_what_one_of_the_file_can():
    """Every field, but for the secret itself."""
    fields = SCHEMA["properties"]["auth"]["properties"]["keys"]["additionalProperties"]["properties"]

    assert fields.keys() == set(FIELDS) - {"key"}


@settings(max_examples=10, suppress_health_check=list(HealthCheck))
@given(chosen=values_strategy({"properties": {"auth": SCHEMA["properties"]["auth"]}}, DEFAULTS))
def test_the_server_takes_the_keys_that_the_schema_allows(chosen: dict[str, Any]):
    """Whatever passes the schema is refused with a reason, or is a file that the server reads."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "values.yaml")
        path.write_text(json.dumps(chosen), encoding="utf-8")
        try:
            made = objects(render(path))
        except HelmError as refusal:
            if "auth.keys: " in str(refusal):
                return
            raise

    asked = chosen["auth"].get("keys", {})
    if asked:
        digests = {name: bytes.fromhex(key["sha256"]) for name, key in asked.items()}
        assert {key.name: key.digest for key in keys_of(made)} == digests


@pytest.mark.parametrize(
    ("values", "open_to_all"),
    [
        ("{}", True),
        ("auth: {existingSecret: keys}", False),
        ("settings: {auth: {keys_file: /secrets/csi/keys.toml}}", False),
    ],
)
def test_only_without_keys_is_the_server_open(values_file: Write, values: str, open_to_all: bool):
    """The server is told that it may go without keys where it has none, and nowhere else."""
    assert (UNAUTHENTICATED in environment_of(objects(render(values_file(values))))) is open_to_all


def test_a_key_that_is_taken_away_takes_effect(values_file: Write, broken: Break):
    """A change of the keys in the values replaces the pods; another version of the chart does not."""
    keys = (CHART / "ci" / "keys-values.yaml").read_text(encoding="utf-8")
    fewer = render(values_file(keys.replace("max_concurrent: 4", "max_concurrent: 1")))
    newer = render("keys-values.yaml", chart=broken("Chart.yaml", "version: 0.1.0", "version: 9.9.9"))
    template = pod_template(objects_of("keys-values.yaml"))

    assert pod_template(objects(fewer)) != template
    assert pod_template(objects(newer)) == template


def test_no_hash_is_in_the_pod():
    """Hashes of keys are in the Secret alone, and no secret is in a variable."""
    made = objects_of("keys-values.yaml")
    elsewhere = yaml.safe_dump([item for item in made if item["kind"] != "Secret"])

    assert all(key.digest.hex() not in elsewhere for key in keys_of(made))
    assert "SAMOVAR_AUTH__KEY" not in environment_of(made)


@pytest.mark.parametrize(
    ("values", "kind", "credentials"),
    [
        ("keys-values.yaml", "ServiceMonitor", {"name": "samovar-scraper", "key": "key"}),
        ("gpu-values.yaml", "PodMonitor", {"name": "samovar-scraper", "key": "secret"}),
        ("macs-values.yaml", "ScrapeConfig", {"name": "samovar-scraper", "key": "key"}),
    ],
)
def test_prometheus_shows_its_key(values: str, kind: str, credentials: dict[str, str]):
    """Each kind of scrape configuration sends the key of a Secret; without one it sends nothing."""
    spec = only(objects_of(values), kind)["spec"]
    (endpoint,) = spec.get("endpoints") or spec.get("podMetricsEndpoints") or [spec]

    assert endpoint["authorization"] == {"type": "Bearer", "credentials": credentials}
    for open_to_all in ("hub-values.yaml", "hostpath-values.yaml", "macs-istio-values.yaml"):
        assert "authorization:" not in rendered(open_to_all)
