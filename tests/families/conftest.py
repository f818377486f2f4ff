"""Each family's tiny model, loaded and checked once a session."""

from collections.abc import Callable
from pathlib import Path  # noqa: TC003 - pytest reads annotations of fixtures

import pytest

from tests.families.laws import Family, load_family


@pytest.fixture(scope="session")
def family(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Family]:
    """Name → family."""
    root: Path = tmp_path_factory.mktemp("families")
    loaded: dict[str, Family] = {}

    def load(name: str) -> Family:
        if name not in loaded:
            loaded[name] = load_family(name, root)
        return loaded[name]

    return load
