"""docs/benchmarks.md and its pictures are what the committed results say."""

import re

import numpy as np
from matplotlib.image import imread

from benchmarks.pictures import FOLDER, draw, files
from benchmarks.report import PAGE, current


def test_no_number_of_the_page_is_typed_by_hand():
    """The page is written from benchmarks/results."""
    assert PAGE.read_text() == current()


def test_the_pictures_show_the_committed_results(tmp_path):
    """Drawn again they are the same, pixel by pixel, and there are no others."""
    draw(tmp_path)

    names = {f"{name}.png" for name, _ in files()}
    assert {path.name for path in FOLDER.iterdir()} == {path.name for path in tmp_path.iterdir()} == names
    for name in names:
        assert np.array_equal(imread(tmp_path / name), imread(FOLDER / name)), name


def test_every_picture_is_on_the_page_for_light_and_for_dark():
    """And the page shows none that is not there."""
    shown = set(re.findall(r"pictures/benchmarks/(\S+)\.png", PAGE.read_text()))
    assert shown == {name for name, _ in files()}
