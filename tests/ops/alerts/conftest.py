"""Model folders for the servers that are watched."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.tiny import make_tiny_model


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A tiny random model's folder by family."""
    root = tmp_path_factory.mktemp("watched")
    made: dict[str, Path] = {}

    def folder(family: str) -> Path:
        if family not in made:
            made[family] = make_tiny_model(root / family, family)
        return made[family]

    return folder
