"""The image, built once."""

import pytest

from tests.support.containers import build_image, build_python_image


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The CPU variant of the committed file."""
    build_python_image(tmp_path_factory.mktemp("base"))
    return build_image()
