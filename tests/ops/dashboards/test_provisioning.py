"""What Grafana is given to find data and dashboards."""

from typing import Any

import yaml

from app.events import TraceRef
from grafana.source.alerting import DATASOURCE_UID
from tests.ops.dashboards.asking import FOLDER
from tests.telemetry.generations import generation
from tests.telemetry.metrics_room import MetricsRoom, parse_openmetrics

PROVISIONING = FOLDER.parent / "provisioning"


def provisioned(kind: str) -> dict[str, Any]:
    """A file of provisioning."""
    content: dict[str, Any] = yaml.safe_load((PROVISIONING / kind / "samovar.yaml").read_text())
    return content


def test_the_data_sources_are_those_that_dashboards_and_alerts_name():
    """A Prometheus under the uid of the alerts, and a Tempo for the links to traces."""
    sources = {source["type"]: source for source in provisioned("datasources")["datasources"]}

    assert sources["prometheus"]["uid"] == DATASOURCE_UID
    assert set(sources) == {"prometheus", "tempo"}


def test_exemplars_lead_to_traces_by_the_label_that_the_server_writes():
    """The label of a real exemplar is the one that Grafana is told to follow."""
    room = MetricsRoom()
    room.hear(generation(cause=TraceRef(trace_id=7, span_id=8, sampled=True)))
    labels = {
        name
        for family in parse_openmetrics(room.text("application/openmetrics-text"))
        for sample in family.samples
        if sample.exemplar is not None
        for name in sample.exemplar.labels
    }
    sources = {source["type"]: source for source in provisioned("datasources")["datasources"]}

    (destination,) = sources["prometheus"]["jsonData"]["exemplarTraceIdDestinations"]
    assert labels == {destination["name"]}
    assert destination["datasourceUid"] == sources["tempo"]["uid"]


def test_the_provider_finds_files_and_lets_nobody_change_them():
    """The repository is the source: what is changed in the browser would be lost at the next update."""
    (provider,) = provisioned("dashboards")["providers"]

    assert provider["type"] == "file"
    assert provider["options"]["path"]
    assert provider["allowUiUpdates"] is False
