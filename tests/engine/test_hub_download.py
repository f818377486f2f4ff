"""Downloads from a hub on this machine, by the real library in a process of its own: what is told of them."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.hub import COMMIT, Hub, hub_with
from tests.support.process import clean_environment

REPOSITORY = "house/tiny"
SIZES = {"config.json": 900, "model.safetensors": 23 * 1024**2, "notes.txt": 70_000, "picture.png": 5_000}
PATTERNS = ("*.json", "model*.safetensors", "*.txt")
WANTED = sum(size for name, size in SIZES.items() if not name.endswith(".png"))

# The library reads its environment once, as it is imported.
FETCH = """
import json, sys
from app.engine.hub_download import fetch
def tell(*what):
    print(json.dumps(what), flush=True)
try:
    tell("folder", str(fetch(sys.argv[1], "", json.loads(sys.argv[2]), tell)))
except Exception as error:
    tell("error", type(error).__name__, str(error))
"""


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    """A hub with a repository of files of these sizes."""
    folder = tmp_path / "repository"
    folder.mkdir()
    for name, size in SIZES.items():
        (folder / name).write_bytes(name[:1].encode() * size)
    with hub_with(folder, REPOSITORY) as running:
        yield running


def fetched(hub: Hub, cache: Path, repository: str = REPOSITORY) -> list[Any]:
    """All that was told, and last the folder or the error."""
    ran = subprocess.run(
        [sys.executable, "-c", FETCH, repository, json.dumps(PATTERNS)],
        cwd=Path(__file__).parents[2],
        env=clean_environment(**hub.environment(cache)),
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stderr == "", "a bar of the library's own is drawn over ours"
    return [json.loads(line) for line in ran.stdout.splitlines()]


def test_a_download_is_told_in_bytes_of_all_that_is_missing(hub: Hub, tmp_path: Path) -> None:
    """From none to all of them, never backwards; the whole is known from the start, and said once, last."""
    *told, (_, folder) = fetched(hub, tmp_path / "cache")

    assert told[:3] == [
        ["asking the hub", 0, 1],
        ["asking the hub", 1, 1],
        ["downloading the model", 0, WANTED],
    ]
    assert {(what, total) for what, _, total in told[2:]} == {("downloading the model", WANTED)}
    counts = [done for _, done, _ in told[2:]]
    assert counts == sorted(counts)
    assert counts[-1] == WANTED
    assert WANTED not in counts[:-1]
    assert len(set(counts)) > 3, "a large file is told in parts"
    assert {file.name: file.stat().st_size for file in Path(folder).iterdir()} == {
        name: size for name, size in SIZES.items() if name != "picture.png"
    }


def test_only_what_is_missing_counts(hub: Hub, tmp_path: Path) -> None:
    """Files that are here already are neither downloaded nor told."""
    whole = hub.folder / "model.safetensors"
    whole.rename(tmp_path / "aside")
    fetched(hub, tmp_path / "cache")
    (tmp_path / "aside").rename(whole)
    (tmp_path / "cache" / "models--house--tiny" / "trees" / f"{COMMIT}.json").unlink()
    hub.downloads.clear()

    *told, _ = fetched(hub, tmp_path / "cache")

    assert hub.downloads == ["model.safetensors"]
    assert told[-1] == ["downloading the model", SIZES["model.safetensors"], SIZES["model.safetensors"]]


def test_a_repository_that_is_here_is_not_downloaded_again(hub: Hub, tmp_path: Path) -> None:
    """Neither while the hub answers nor when it is gone; nothing is told of a download."""
    *_, first = fetched(hub, tmp_path / "cache")
    hub.downloads.clear()

    assert fetched(hub, tmp_path / "cache") == [["asking the hub", 0, 1], ["asking the hub", 1, 1], first]
    hub.url = "http://127.0.0.1:9"
    assert fetched(hub, tmp_path / "cache")[-1] == first
    assert hub.downloads == []


def test_a_repository_that_does_not_exist_is_an_error(hub: Hub, tmp_path: Path) -> None:
    """It is the library's own, as the loader tells it on."""
    kind, name, message = fetched(hub, tmp_path / "cache", "house/nothing")[-1]

    assert (kind, name) == ("error", "RepositoryNotFoundError")
    assert "house/nothing" in message
