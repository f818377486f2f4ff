"""The model that a benchmark is asked to measure with: the demo model, a folder, or one of random weights."""

import argparse
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.engine.loader import demo_dtype
from benchmarks.demo import demo_folder
from benchmarks.shapes import SHAPES, make_shape

TO_THE_LIMIT: Mapping[str, Any] = {"logit_bias": {"2": -100}}
"""Keeps the demo model from ending its reply, so that all replies have the same number of tokens."""


@dataclass(frozen=True)
class ChosenModel:
    """A model's folder, what a reader is told that it is, and what keeps its replies from ending early."""

    folder: Path
    told: str
    to_the_limit: Mapping[str, Any]


def add_model_flags(parser: argparse.ArgumentParser) -> None:
    """`--model FOLDER` or `--shape NAME`; the demo model without either."""
    model = parser.add_mutually_exclusive_group()
    model.add_argument("--model", type=Path, help="model folder; the demo model without it")
    model.add_argument("--shape", choices=tuple(SHAPES), help="a random model of benchmarks.shapes instead")


def chosen_model(options: argparse.Namespace) -> ChosenModel:
    """What the flags name; a random model's folder is made if it is not there yet."""
    if options.shape:
        dtype = demo_dtype()
        folder = Path(tempfile.gettempdir()) / f"samovar-shapes-{str(dtype).rpartition('.')[2]}"
        config = SHAPES[options.shape]
        told = f"a random {config['model_type']} of {config['num_hidden_layers']} layers"
        # It never ends a reply by itself: see `make_shape`.
        return ChosenModel(make_shape(folder, options.shape, dtype=dtype), told, {})
    if options.model:
        return ChosenModel(options.model, f"`{options.model.name}`", TO_THE_LIMIT)
    return ChosenModel(demo_folder(), "the demo model", TO_THE_LIMIT)
