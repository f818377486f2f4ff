"""Model folders for server processes."""

from pathlib import Path

import pytest

from tests.support.tiny import make_tiny_model


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory):
    """A tiny random model's folder by family."""
    root: Path = tmp_path_factory.mktemp("served")
    made: dict[str, Path] = {}

    def folder(family: str) -> Path:
        if family not in made:
            made[family] = make_tiny_model(root / family, family)
        return made[family]

    return folder
