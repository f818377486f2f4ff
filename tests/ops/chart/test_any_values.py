"""Of whatever the schema allows the chart makes valid objects, and the server takes its settings."""

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings

from app.settings.keys import all_keys
from charts.source.schema import values_schema
from tests.ops.chart.helm import CHART, NEWEST, HelmError, objects, render
from tests.ops.chart.strictly import faults_of
from tests.ops.chart.values_strategy import values_strategy

DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
SCHEMA = values_schema()

# What templates refuse because two values do not go together; anything else they say is a fault of theirs.
REFUSALS = (
    "autoscaling.minReplicas: ",
    "cache.claim.accessModes: ",
    "settings.telemetry.metrics: ",
    "settings.auth.keys_file: ",
    "metrics.scrape.keySecret.name: ",
    "auth.keys: ",
    "metrics.rules.disabled: ",
    "externalHosts.hosts: ",
    "fullnameOverride: ",
)


@pytest.mark.slow
@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(values=values_strategy(SCHEMA, DEFAULTS))
@example(values={"nameOverride": "0", "fullnameOverride": "e3"})
@example(values={"nameOverride": "null", "fullnameOverride": "true", "serviceAccount": {"name": "12"}})
def test_allowed_values_make_valid_objects(values: dict[str, object]):
    """What the schema allows renders, or is refused with a reason; what is rendered is strictly valid."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "values.yaml")
        path.write_text(json.dumps(values), encoding="utf-8")
        try:
            manifests = render(path)
        except HelmError as refusal:
            if any(reason in str(refusal) for reason in REFUSALS):
                return
            raise

    assert [fault for item in objects(manifests) for fault in faults_of(item, NEWEST)] == []


@settings(max_examples=50, suppress_health_check=list(HealthCheck))
@given(chosen=values_strategy({"properties": {"settings": SCHEMA["properties"]["settings"]}}, DEFAULTS))
def test_the_server_takes_the_settings_that_the_schema_allows(chosen: dict[str, dict[str, Any]]):
    """Each setting that passes the chart's schema is one that the server can read from its environment."""
    keys = {key.dotted: key for key in all_keys()}
    for section, inner in chosen["settings"].items():
        for name, value in inner.items() if isinstance(inner, dict) else [("", inner)]:
            keys[f"{section}.{name}".rstrip(".")].read(_plain(value))


def _plain(value: object) -> str:
    return json.dumps(value) if isinstance(value, (bool, dict)) else str(value)
