"""The chart's own Deployment, started by podman from the image: what a cluster runs, without a cluster."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml

from tests.ops.chart.helm import objects_of
from tests.support.containers import logs, podman

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

VALUES = "podman-values.yaml"
POD, CONTAINER = "samovar-pod", "samovar-pod-samovar"


@pytest.fixture
def pod(image: str, tmp_path: Path) -> Iterator[str]:
    """The pod; the address it serves at."""
    (deployment,) = (each for each in objects_of(VALUES) if each["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    podman("tag", image, container["image"])
    manifest = tmp_path / "deployment.yaml"
    manifest.write_text(yaml.safe_dump(deployment))
    podman("play", "kube", str(manifest))
    try:
        infra = json.loads(podman("pod", "inspect", POD))["InfraContainerID"]
        networks = json.loads(podman("inspect", infra))[0]["NetworkSettings"]["Networks"]
        (network,) = networks.values()
        yield f"http://{network['IPAddress']}:8080"
    finally:
        podman("play", "kube", "--down", str(manifest))


def test_rendered_deployment_serves_and_ends_in_its_grace_period(pod: str):
    """Ready, one chat completion, `/metrics` scraped; SIGTERM ends it with 0 in the grace period."""
    with httpx.Client(base_url=pod, transport=httpx.HTTPTransport(retries=8), timeout=120) as client:
        while client.get("/startupz").status_code != 200:
            running = podman("inspect", CONTAINER, "--format", "{{.State.Running}}").strip()
            assert running == "true", logs(CONTAINER)
        answer = client.post(
            "/v1/chat/completions",
            json={"messages": [{"role": "user", "content": "Say tea."}], "temperature": 0, "max_tokens": 8},
        )
        scraped = client.get("/metrics").text
    state = json.loads(podman("inspect", CONTAINER))[0]
    podman("stop", "--time", "25", CONTAINER)

    assert answer.status_code == 200, answer.text
    assert 'samovar_requests_total{outcome="completed",route="/v1/chat/completions"} 1.0' in scraped
    assert "samovar_snapshot_capacity_bytes 6.7108864e+07" in scraped
    assert state["Config"]["User"] == "65532:65532"
    assert state["HostConfig"]["ReadonlyRootfs"] is True
    assert json.loads(podman("inspect", CONTAINER))[0]["State"]["ExitCode"] == 0
