"""What a state is said to weigh, against states that were really computed and sealed."""

import mlx.core as mx
import pytest
from mlx_lm.models.cache import make_prompt_cache

from app.engine.loader import ModelSource, load_model
from app.engine.payload import seal
from app.engine.state_size import measure
from tests.support.families import FAMILIES
from tests.support.tiny import make_tiny_model

STEP_TOKENS = 16
LENGTHS = (60, 150, 384)
"""Within and beyond every window of the tiny models."""

TOLERANCES = {"llama4": 0.1, "deepseek_v41": 0.07}
"""A chunked cache holds a prefill step more than its chunk, and a folding one what is not folded yet."""


@pytest.mark.parametrize("family", FAMILIES)
def test_a_state_weighs_what_was_said_before_it_was_computed(tmp_path, family):
    """For every family, at lengths that were not measured: to the byte, but for two that go in steps."""
    folder = make_tiny_model(tmp_path / family, family)
    source = ModelSource(path=str(folder))
    network = load_model(source, cache_folder=tmp_path, progress=lambda *_: None).network
    before = mx.get_active_memory()
    size = measure(network)
    assert mx.get_active_memory() - before < 2**16, "measuring computed something"
    caches = make_prompt_cache(network)
    done = 0
    for length in LENGTHS:
        while done < length:
            step = min(STEP_TOKENS, length - done)
            network(mx.zeros((1, step), dtype=mx.int32), cache=caches)
            mx.eval([cache.state for cache in caches])
            done += step
        true = seal(caches, length).nbytes
        assert size.nbytes(length) == pytest.approx(true, rel=TOLERANCES.get(family, 0))
