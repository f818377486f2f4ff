"""The chart's own Deployment, started by podman from the image: what a cluster runs, without a cluster."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import yaml

from tests.ops.chart.helm import objects_of
from tests.support.containers import logs, podman

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

VALUES = "podman-values.yaml"


@dataclass(frozen=True)
class Pod:
    """A running pod of one container: the container's id, and the address it serves at."""

    container: str
    url: str


@pytest.fixture
def pod(image: str, tmp_path: Path) -> Iterator[Pod]:
    """The Deployment's pod."""
    (deployment,) = (each for each in objects_of(VALUES) if each["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    podman("tag", image, container["image"])
    manifest = tmp_path / "deployment.yaml"
    manifest.write_text(yaml.safe_dump(deployment))
    try:
        _, pod_id, _, container_id = podman("play", "kube", str(manifest)).split()
        infra = json.loads(podman("pod", "inspect", pod_id))["InfraContainerID"]
        (network,) = json.loads(podman("inspect", infra))[0]["NetworkSettings"]["Networks"].values()
        yield Pod(container_id, f"http://{network['IPAddress']}:8080")
    finally:
        podman("play", "kube", "--down", str(manifest))


def test_rendered_deployment_serves_and_ends_in_its_grace_period(pod: Pod):
    """Ready, one chat completion, `/metrics` scraped; SIGTERM ends it with 0 in the grace period."""
    with httpx.Client(base_url=pod.url, transport=httpx.HTTPTransport(retries=8), timeout=120) as client:
        while client.get("/startupz").status_code != 200:
            running = podman("inspect", pod.container, "--format", "{{.State.Running}}").strip()
            assert running == "true", logs(pod.container)
        answer = client.post(
            "/v1/chat/completions",
            json={"messages": [{"role": "user", "content": "Say tea."}], "temperature": 0, "max_tokens": 8},
        )
        scraped = client.get("/metrics").text
    state = json.loads(podman("inspect", pod.container))[0]
    podman("stop", "--time", "25", pod.container)

    assert answer.status_code == 200, answer.text
    assert 'samovar_requests_total{outcome="completed",route="/v1/chat/completions"} 1.0' in scraped
    assert "samovar_snapshot_capacity_bytes 6.7108864e+07" in scraped
    assert state["Config"]["User"] == "65532:65532"
    assert state["HostConfig"]["ReadonlyRootfs"] is True
    assert json.loads(podman("inspect", pod.container))[0]["State"]["ExitCode"] == 0
