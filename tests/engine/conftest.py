"""Tiny models, made once a session, and a decoder over each."""

from collections.abc import Callable
from pathlib import Path  # noqa: TC003 - pytest reads annotations of fixtures

import pytest

from app.engine.batch_limits import BatchLimits
from app.engine.decoder import BatchDecoder
from app.engine.loader import LoadedModel, ModelSource, load_model
from tests.support.tiny import make_tiny_model


def no_progress(_what: str, _done: int, _total: int) -> None:
    return


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], LoadedModel]:
    """A tiny random model of a family, loaded the way every model is."""
    root: Path = tmp_path_factory.mktemp("models")
    loaded: dict[str, LoadedModel] = {}

    def load(family: str) -> LoadedModel:
        if family not in loaded:
            folder = make_tiny_model(root / family, family)
            loaded[family] = load_model(
                ModelSource(path=str(folder)), cache_folder=root, progress=no_progress
            )
        return loaded[family]

    return load


def new_decoder(model: LoadedModel, *, chunk: int = 16, prefill_batch: int = 4) -> BatchDecoder:
    """A decoder with small chunks, so that short prompts take several steps."""
    limits = BatchLimits(max_running=8, prefill_batch=prefill_batch, prefill_step_tokens=chunk)
    return BatchDecoder(model.network, end_tokens=model.tokenizer.eos_token_ids, limits=limits)
