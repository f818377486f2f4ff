"""A server whose model is a repository of a hub: how far the download is can be asked while it lasts."""

import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.hub import hub_with
from tests.support.ports import free_port
from tests.support.process import Samovar

WEIGHTS = "model.safetensors"
NOTES_BYTES = 3 * 1024**2
"""Of a file beside the weights, so that there is something to tell of while they are held back."""
PROBE_SECONDS = 120


@pytest.mark.slow
def test_how_far_a_download_is_can_be_asked(tmp_path: Path, tiny_folder: Any) -> None:
    """While the hub holds the weights back, the probe says how much is done; then the model is served."""
    folder = tmp_path / "repository"
    folder.mkdir()
    for file in tiny_folder("llama").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    (folder / "notes.txt").write_bytes(b" " * NOTES_BYTES)
    weights = (folder / WEIGHTS).stat().st_size
    others = sum(file.stat().st_size for file in folder.iterdir()) - weights
    port = str(free_port())
    with hub_with(folder, "house/tiny", held=WEIGHTS) as hub:
        server = Samovar(
            *("--model", "house/tiny", "--port", port),
            folder=tmp_path,
            environment=hub.environment(tmp_path / "cache"),
        )
        try:
            told = progress_when(f"http://127.0.0.1:{port}", 100 * others // (others + weights))
            assert told["what"] == "downloading the model"
            assert told["percent"] < 100
            hub.let_go.set()
            server.wait_ready()
            assert server.model == "house/tiny"
            assert server.client().models.list().data[0].id == "house/tiny"
            assert server.stop() == 0, server.output
        finally:
            server.clients.close()
            if server.process.poll() is None:
                server.process.kill()
                server.wait_ended()
    assert [line for line in server.lines if "downloading the model" in line], server.output


def progress_when(url: str, percent: int) -> dict[str, Any]:
    """What `/startupz` says of the download, once it has come so far."""
    pause = threading.Event()
    last: dict[str, Any] = {}
    for _ in range(PROBE_SECONDS * 20):
        pause.wait(0.05)
        try:
            probe = httpx.get(f"{url}/startupz", timeout=10)
        except httpx.TransportError:
            continue  # it does not listen yet
        last = probe.json().get("progress") or last
        if last.get("what") == "downloading the model" and last["percent"] >= percent:
            return last
    raise AssertionError(f"the download never came to {percent} percent: {last}")
