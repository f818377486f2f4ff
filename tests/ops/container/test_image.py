"""The image, built and run as strictly as a cluster would."""

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.containers import IMAGE, logs, podman, run
from tests.support.ports import free_port
from tests.support.tiny import make_tiny_model

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

START_SECONDS = 120
STRICT = (
    *("--read-only", "--cap-drop=all", "--security-opt=no-new-privileges", "--memory=2g"),
    *("--ulimit", "nofile=1024:4096", "--ulimit", "nproc=1024:4096"),
)


@contextlib.contextmanager
def container(*options: str, name: str) -> Iterator[str]:
    """A running container; the address it serves at."""
    port = free_port()
    podman("run", "--detach", "--name", name, *STRICT, "--publish", f"127.0.0.1:{port}:8080", *options, IMAGE)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        podman("rm", "--force", "--time", "0", name)


def wait_ready(url: str, name: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(f"{url}/readyz").status_code == 200:
                return
        assert podman("inspect", name, "--format", "{{.State.Running}}").strip() == "true", podman(
            "logs", name
        )
        time.sleep(0.2)
    pytest.fail(f"not ready:\n{logs(name)}")


def test_image_is_set_up_for_a_strict_host(image):
    """Numeric user that is not root, exec-form entry point, SIGTERM, a health check, no secret inside."""
    config = json.loads(run("buildah", "inspect", "--type", "image", image))["Docker"]["config"]

    assert config["User"] == "65532:65532"
    assert config["Entrypoint"] == ["samovar"]
    assert config["Cmd"] == ["serve"]
    assert config["StopSignal"] == "SIGTERM"
    assert config["Healthcheck"]["Test"][0] == "CMD"
    assert not [entry for entry in config["Env"] if any(word in entry for word in ("KEY", "TOKEN", "SECRET"))]


def test_image_holds_no_builder(image):
    """No compiler and no pip: what runs cannot install or build anything."""
    look = (
        "import importlib.util as u, shutil as s; print(u.find_spec('pip'), s.which('g++'), s.which('pip'))"
    )

    said = podman("run", "--rm", *STRICT, "--entrypoint", "/opt/samovar/bin/python", image, "-c", look)

    assert said.split() == ["None", "None", "None"]


def test_bill_of_materials_names_what_is_installed(image):
    """The SBOM lists every distribution of the environment with its version."""
    script = (
        "import json, importlib.metadata as m\n"
        "print(json.dumps({d.name.lower(): d.version for d in m.distributions()}))\n"
        "print(open('/opt/samovar/sbom.cdx.json').read())"
    )

    said = podman("run", "--rm", *STRICT, "--entrypoint", "/opt/samovar/bin/python", image, "-c", script)

    installed, _, bill = said.partition("\n")
    listed = {part["name"].lower(): part["version"] for part in json.loads(bill)["components"]}
    assert listed == json.loads(installed)
    assert {"samovar", "mlx", "mlx-lm"} <= listed.keys()


def test_open_port_without_permission_is_refused(image):
    """The image listens on all addresses, so it does not start until somebody says that this is meant."""
    with container(name="samovar-unasked"):
        code = podman("wait", "samovar-unasked").strip()
        said = logs("samovar-unasked")

    assert code == "1"
    assert "allow_unauthenticated" in said or "allow-unauthenticated" in said


def test_demo_model_is_served_from_a_read_only_root(image):
    """Ready, one chat completion, metrics, a passing health check; SIGTERM ends it with 0 in time."""
    name = "samovar-demo"
    with container("--env", "SAMOVAR_SERVER__ALLOW_UNAUTHENTICATED=true", name=name) as url:
        wait_ready(url, name)
        answer = httpx.post(
            f"{url}/v1/chat/completions",
            json={
                "messages": [{"role": "user", "content": "What is the capital of France?"}],
                "temperature": 0,
                "max_tokens": 12,
            },
            timeout=120,
        )
        assert "Paris" in answer.json()["choices"][0]["message"]["content"]
        assert 'samovar_requests_total{outcome="completed",route="/v1/chat/completions"} 1.0' in (
            httpx.get(f"{url}/metrics").text
        )
        assert "OpenBLAS" in blas_in_use(name)
        podman("healthcheck", "run", name)
        podman("stop", "--time", "40", name)

        assert podman("inspect", name, "--format", "{{.State.ExitCode}}").strip() == "0"
        assert podman("inspect", name, "--format", "{{.State.OOMKilled}}").strip() == "false"


def blas_in_use(name: str) -> str:
    """What the server's process has mapped in place of the reference BLAS."""
    look = (
        "import pathlib; maps = pathlib.Path('/proc/1/maps').read_text(); "
        "print('OpenBLAS' if 'openblas' in maps else maps)"
    )
    return podman("exec", name, "python", "-c", look)


def test_mounted_model_is_served(image, tmp_path: Path):
    """A model folder mounted read-only is served under its own name."""
    model = make_tiny_model(tmp_path / "tiny", "llama")
    tmp_path.chmod(0o755)
    name = "samovar-mounted"
    options = (
        *("--volume", f"{model}:/models/tiny:ro", "--env", "SAMOVAR_MODEL__PATH=/models/tiny"),
        *("--env", "SAMOVAR_SERVER__ALLOW_UNAUTHENTICATED=true"),
    )
    with container(*options, name=name) as url:
        wait_ready(url, name)

        assert httpx.get(f"{url}/v1/models").json()["data"][0]["id"] == "tiny"
