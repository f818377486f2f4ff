"""A real server with a real model, whose parts fail when a test says so."""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.faulty_server import Faults
from tests.support.process import READY_SECONDS, Samovar, samovar
from tests.support.tiny import make_tiny_model


class Faulty:
    """A running server, and the means to break it."""

    def __init__(self, server: Samovar, faults: Faults) -> None:
        self.server = server
        self.faults = faults


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A tiny random model's folder by family."""
    root: Path = tmp_path_factory.mktemp("faulty")
    made: dict[str, Path] = {}

    def folder(family: str) -> Path:
        if family not in made:
            made[family] = make_tiny_model(root / family, family)
        return made[family]

    return folder


@contextlib.contextmanager
def faulty(model: Path, *flags: str, folder: Path) -> Iterator[Faulty]:
    """A ready server for a block, with `flags`."""
    where = folder / "faults"
    with samovar("--model", str(model), *flags, folder=folder, program=faulty_program(where)) as server:
        yield Faulty(server, Faults(where))


def faulty_program(where: Path) -> tuple[str, ...]:
    """What Python runs for a server that fails where the folder says."""
    return ("-m", "tests.support.faulty_server", str(where))


def wait_ready_at(server: Samovar, port: int) -> None:
    """Wait for a server whose greeting goes elsewhere."""
    server.url = f"http://127.0.0.1:{port}"
    give_up = time.monotonic() + READY_SECONDS
    while True:
        assert server.process.poll() is None, server.output
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(f"{server.url}/readyz").status_code == httpx.codes.OK:
                return
        assert time.monotonic() < give_up, "it never was ready"
        time.sleep(0.02)
