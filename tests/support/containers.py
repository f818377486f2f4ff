"""The image built by buildah from the committed file, and podman to run it, as a user of Linux has them."""

import os
import ssl
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONTAINERFILE = ROOT / "ops" / "container" / "Containerfile"
PYTHON_IMAGE = "localhost/samovar-test-python:bookworm"
IMAGE = "localhost/samovar:test"
RUNTIME = ROOT / "tests" / "support" / "runc_within_limits.py"


def run(*command: str, seconds: float = 300) -> str:
    """Standard output of a command that must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def logs(name: str) -> str:
    """All that a container wrote, to either stream."""
    done = subprocess.run(["podman", "logs", name], capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


def podman(*arguments: str, seconds: float = 120) -> str:
    """One podman command."""
    return run(
        *("podman", "--runtime", str(RUNTIME), "--cgroup-manager=cgroupfs", *arguments), seconds=seconds
    )


def build_python_image(folder: Path) -> None:
    """A Debian with Python, made from packages: the same release as the base that the file names."""
    archive = folder / "python.tar"
    run(
        *("mmdebstrap", "--quiet", "--variant=minbase", "--include=python3,python3-venv,ca-certificates"),
        *("bookworm", str(archive)),
    )
    container = run("buildah", "from", "scratch").strip()
    run("buildah", "add", "--quiet", container, str(archive), "/")
    run("buildah", "commit", "--quiet", "--rm", container, PYTHON_IMAGE)
    archive.unlink()


def build_image(backend: str = "default") -> str:
    """The image, from the working tree; its name."""
    certificates = os.environ.get("SSL_CERT_FILE") or ssl.get_default_verify_paths().cafile
    volume = ["--volume", f"{certificates}:/etc/ssl/certs/ca-certificates.crt:ro"] if certificates else []
    run(
        *("buildah", "build", "--pull-never", "--isolation", "chroot", "--format", "docker", *volume),
        *("--build-arg", f"PYTHON_IMAGE={PYTHON_IMAGE}", "--build-arg", f"BACKEND={backend}"),
        *("--file", str(CONTAINERFILE), "--tag", IMAGE, str(ROOT)),
        seconds=900,
    )
    return IMAGE
