"""The command as somebody on a Mac types it."""

import os
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from app.cli import main
from tests.ops.launchd.room import HOME


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str


@pytest.fixture
def samovar(tmp_path, monkeypatch, capsys) -> Callable[..., Done]:
    """Runs `samovar launchd …` in an empty folder, for a user whose home is a Mac's and who set nothing."""
    for name in [name for name in os.environ if name.startswith("SAMOVAR_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", HOME)
    monkeypatch.chdir(tmp_path)

    def run(*argv: str) -> Done:
        code = main(["launchd", *argv])
        return Done(code, *capsys.readouterr())

    return run
