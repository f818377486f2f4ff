"""What the chart's tests share: a copy of the chart to break."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ops.chart.helm import CHART

Break = Callable[[str, str, str], Path]


@pytest.fixture
def broken(tmp_path: Path) -> Break:
    """A copy of the chart in which one piece of text of one file is another."""

    def make(file: str, old: str, new: str) -> Path:
        copy = tmp_path / "samovar"
        shutil.copytree(CHART, copy, dirs_exist_ok=True)
        path = copy / file
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")
        return copy

    return make


@pytest.fixture
def values_file(tmp_path: Path) -> Callable[[str], Path]:
    """A file of values with this text."""

    def write(text: str) -> Path:
        path = tmp_path / "values.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write
