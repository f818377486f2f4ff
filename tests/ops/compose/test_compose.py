"""The compose file, as podman-compose reads and runs it."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from grafana.source.alerting import DATASOURCE_UID
from tests.support.containers import RUNTIME, logs, podman, run
from tests.support.ports import free_port
from tests.support.tiny import make_tiny_model

ROOM = Path("ops/compose").resolve()
FILE = ROOM / "compose.yaml"
COMPOSE = (sys.executable, "-m", "podman_compose")
PROJECT: dict[str, Any] = yaml.safe_load(FILE.read_text())


def test_composer_reads_the_file_and_no_broken_one(tmp_path):
    """podman-compose accepts it, and refuses one that mounts a volume nobody declares."""
    run(*COMPOSE, "-f", str(FILE), "config")
    twin = tmp_path / "compose.yaml"
    twin.write_text(FILE.read_text().replace("- cache:/cache", "- cash:/cache"))

    done = subprocess.run(
        [*COMPOSE, "-f", twin, "--dry-run", "up", "samovar"], capture_output=True, check=False
    )

    assert done.returncode != 0


@pytest.mark.parametrize("service", PROJECT["services"])
def test_everything_mounted_is_there(service):
    """Each file or folder of ours that a service mounts exists, and is mounted read-only."""
    for volume in PROJECT["services"][service]["volumes"]:
        source, _, rest = volume.partition(":")
        if source.startswith("."):
            assert (ROOM / source).exists(), volume
            assert rest.endswith(":ro"), volume
        elif not source.startswith("$"):
            assert source in PROJECT["volumes"]


@pytest.mark.parametrize("service", PROJECT["services"])
def test_no_port_is_open_to_the_network(service):
    """What has no passwords yet listens on loopback only."""
    assert all(port.startswith("127.0.0.1:") for port in PROJECT["services"][service]["ports"])


def test_prometheus_accepts_its_configuration(tmp_path):
    """promtool checks the file beside the rules, as the container has them."""
    (tmp_path / "prometheus.yml").write_text((ROOM / "prometheus.yml").read_text())
    (tmp_path / "samovar.rules.yml").write_text((ROOM / "../prometheus/samovar.rules.yml").read_text())

    run("promtool", "check", "config", str(tmp_path / "prometheus.yml"))


def test_what_the_comments_on_keys_say_can_be_used(tmp_path):
    """Without their marks, the lines on keys make files that the composer and Prometheus accept."""
    for name in ("compose.yaml", "prometheus.yml"):
        with_keys = re.sub(
            r"# (?=SAMOVAR_AUTH__KEYS_FILE:|- \./keys:|authorization:)", "", (ROOM / name).read_text()
        )
        (tmp_path / name).write_text(with_keys)
    (tmp_path / "samovar.rules.yml").write_text((ROOM / "../prometheus/samovar.rules.yml").read_text())
    services = yaml.safe_load((tmp_path / "compose.yaml").read_text())["services"]
    (job,) = yaml.safe_load((tmp_path / "prometheus.yml").read_text())["scrape_configs"]

    run(*COMPOSE, "-f", str(tmp_path / "compose.yaml"), "config")
    run("promtool", "check", "config", "--syntax-only", str(tmp_path / "prometheus.yml"))
    for service in ("samovar", "prometheus"):
        assert "./keys:/keys:ro" in services[service]["volumes"]
    assert services["samovar"]["environment"]["SAMOVAR_AUTH__KEYS_FILE"] == "/keys/keys.toml"
    assert job["authorization"] == {"credentials_file": "/keys/metrics.key"}


def test_addresses_are_services():
    """Every host that a configuration names is a service of the file, at a port that it listens on."""
    prometheus = yaml.safe_load((ROOM / "prometheus.yml").read_text())
    targets = [
        target
        for place in (*prometheus["scrape_configs"], *prometheus["alerting"]["alertmanagers"])
        for group in place["static_configs"]
        for target in group["targets"]
    ]
    (datasource,) = yaml.safe_load((ROOM / "datasources.yaml").read_text())["datasources"]
    targets.append(datasource["url"].removeprefix("http://"))

    for target in targets:
        service, _, port = target.partition(":")
        assert [each.rpartition(":")[2] for each in PROJECT["services"][service]["ports"]] == [port]
    assert datasource["uid"] == DATASOURCE_UID


@pytest.fixture
def project(image: str, tmp_path: Path) -> Iterator[str]:
    """The server's service, started by podman-compose with a tiny model; its address."""
    make_tiny_model(tmp_path / "models" / "tiny", "llama")
    tmp_path.chmod(0o755)
    podman("tag", image, "samovar:latest")
    port = free_port()
    settings = tmp_path / "environment"
    settings.write_text(
        f"SAMOVAR_PORT={port}\nSAMOVAR_MODELS={tmp_path}/models\nSAMOVAR_MODEL__PATH=/models/tiny\n"
    )
    command = (
        *COMPOSE,
        *("--in-pod=0", f"--podman-args=--runtime {RUNTIME} --cgroup-manager=cgroupfs"),
        *(
            "--podman-run-args=--ulimit nofile=1024:4096 --ulimit nproc=1024:4096",
            "--env-file",
            str(settings),
        ),
        *("-f", str(FILE)),
    )
    run(*command, "up", "--detach", "--no-build", "samovar")
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        run(*command, "down", "--volumes", "--timeout", "40")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_service_serves(project: str):
    """`up` brings a server that answers on the published port with the model that the environment names."""
    with httpx.Client(base_url=project, transport=httpx.HTTPTransport(retries=5), timeout=10) as client:
        while client.get("/readyz").status_code != 200:
            running = podman("inspect", "samovar_samovar_1", "--format", "{{.State.Running}}")
            assert running.strip() == "true", logs("samovar_samovar_1")

        assert client.get("/v1/models").json()["data"][0]["id"] == "tiny"
