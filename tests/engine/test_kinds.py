"""The table of cache kinds against mlx-lm's own classes: complete, and exact also for the rare ones."""

import inspect
from collections.abc import Callable
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.models import cache as caches
from mlx_lm.models.cache import ChunkedKVCache, ConcatenateKVCache, KVCache, QuantizedKVCache

from app.engine.kinds import KINDS, can_be_batched, unknown_kinds
from app.engine.one_row import as_one_row
from app.engine.payload import cache_signature, is_truncatable, seal
from app.errors import UnsupportedCacheError
from tests.engine.conftest import new_decoder
from tests.support.decoding import run
from tests.support.jobs import make_job
from tests.support.tiny import make_tiny_model

PROMPT = [(7 * i + i * i) % 250 for i in range(101)]
OTHER = [(11 * i + 3) % 250 for i in range(21)]
OF_BATCHES = {"BatchKVCache", "BatchRotatingKVCache"}
"""What rows become in a batch; a row that leaves it is one of the others again."""


def test_every_cache_class_of_mlx_lm_is_in_the_table():
    """A class that a new mlx-lm brings must be decided on, not overlooked."""
    classes = {
        name
        for name, value in inspect.getmembers(caches, inspect.isclass)
        if issubclass(value, caches._BaseCache) and value is not caches._BaseCache
    }

    assert classes - OF_BATCHES <= {kind.__name__ for kind in KINDS}


def of_kind(make: Callable[[], Any]) -> Callable[[Any], list[Any]]:
    return lambda network: [make() for _ in network.layers]


RARE = {
    "quantized": of_kind(lambda: QuantizedKVCache(group_size=32, bits=8)),
    "concatenated": of_kind(ConcatenateKVCache),
}


@pytest.fixture(params=RARE)
def rare(request, tmp_path, monkeypatch):
    """A dense model whose layers have a kind of cache that none of mlx-lm's models asks for itself."""
    from app.engine.loader import ModelSource, load_model

    folder = make_tiny_model(tmp_path / "m", "llama", changes={"head_dim": 32})
    model = load_model(ModelSource(path=str(folder)), cache_folder=tmp_path, progress=lambda *_: None)
    monkeypatch.setattr(type(model.network), "make_cache", RARE[request.param], raising=False)
    return model


def test_a_rare_kind_is_served_restored_and_cut_back_exactly(rare):
    """Neither kind can be batched: rows run one at a time, and states go on as if they had never left."""
    decoder = new_decoder(rare)
    assert not can_be_batched(decoder.new_caches())
    assert is_truncatable(decoder.new_caches())
    assert decoder.max_running == 1

    cold = run(decoder, make_job(PROMPT, max_tokens=8))
    (sealed,) = run(decoder, make_job(PROMPT, max_tokens=8), stops=[60]).at_stops
    restored = [run(decoder, make_job(PROMPT, max_tokens=8), sealed).tokens for _ in range(2)]
    cut = run(decoder, make_job([*PROMPT[:33], *OTHER], max_tokens=8), sealed, use_tokens=33)

    assert restored == [cold.tokens] * 2
    assert cut.tokens == run(decoder, make_job([*PROMPT[:33], *OTHER], max_tokens=8)).tokens


def test_a_chunked_state_can_be_cut_back_as_far_as_its_chunk_is_held(tiny):
    """What the next token looks back to must all be there; where it is, the cut equals cold."""
    decoder = new_decoder(tiny("llama4"))
    end = run(decoder, make_job(PROMPT, max_tokens=4)).at_end
    chunked = next(cache for cache in end.payload._caches if isinstance(cache, ChunkedKVCache))
    possible = [n for n in range(1, len(PROMPT)) if end.payload.can_truncate_to(n)]

    assert chunked.start_position > 0
    assert possible == list(range(64, len(PROMPT)))
    for length in (64, 70, 100):
        prompt = [*PROMPT[:length], *OTHER]
        ran = run(decoder, make_job(prompt, max_tokens=8), end, use_tokens=length)
        assert ran.tokens == run(decoder, make_job(prompt, max_tokens=8)).tokens


def test_jobs_of_a_model_that_cannot_be_batched_wait_for_each_other(tiny):
    """More jobs than one are admitted without harm, and each says what it says alone."""
    decoder = new_decoder(tiny("llama4"))
    alone = [run(decoder, make_job(tokens, max_tokens=6)).tokens for tokens in (PROMPT, OTHER)]
    for name, tokens in (("a", PROMPT), ("b", OTHER)):
        decoder.admit(make_job(tokens, id=name, max_tokens=6), start=0, state=None, stops=[])
    said: dict[str, list[int]] = {"a": [], "b": []}
    while any(len(tokens) < 6 for tokens in said.values()):
        for job, generated in decoder.step().generated:
            said[job].append(generated.token)

    assert list(said.values()) == alone


def test_a_batch_of_one_row_takes_no_second(tiny):
    """What has no batched form says so instead of mixing rows."""
    one, other = (as_one_row(new_decoder(tiny("llama4")).new_caches()) for _ in range(2))

    with pytest.raises(ValueError, match="cannot be merged"):
        one[0].merge([one[0], other[0]])
    with pytest.raises(ValueError, match="no other can be added"):
        one[0].extend(other[0])
    with pytest.raises(ValueError, match="row 0 only"):
        one[0].filter([0, 1])


def test_geometry_keeps_states_of_one_class_apart():
    """Equal classes with another window, chunk or precision never share a signature."""
    several = [
        [KVCache()],
        [caches.RotatingKVCache(8)],
        [caches.RotatingKVCache(16)],
        [ChunkedKVCache(8)],
        [ChunkedKVCache(16)],
        [QuantizedKVCache(bits=4)],
        [QuantizedKVCache(bits=8)],
        [caches.ArraysCache(2)],
        [caches.ArraysCache(3)],
        [caches.CacheList(KVCache(), KVCache())],
        [caches.CacheList(KVCache(), caches.ArraysCache(2))],
    ]

    assert len({cache_signature(each) for each in several}) == len(several)


def test_a_subclass_is_another_kind_also_inside_a_list():
    """It may keep state of its own; it is named, refused, and can be called truncatable by nobody."""

    novel = type("Novel", (KVCache,), {})
    layers = [KVCache(), caches.CacheList(KVCache(), novel())]

    assert unknown_kinds(layers) == ("Novel",)
    assert not is_truncatable(layers)
    with pytest.raises(UnsupportedCacheError, match="Novel"):
        seal(layers, 0)


def test_a_restored_state_shares_buffers_and_no_objects(tiny):
    """A restore costs no copy, and yet nothing that runs on it can reach what is stored."""
    decoder = new_decoder(tiny("llama"))
    stored = run(decoder, make_job(PROMPT, max_tokens=2)).at_end.payload
    before = mx.get_active_memory()

    restored = stored.restore(stored.n_tokens)
    mx.eval([cache.keys for cache in restored])

    assert mx.get_active_memory() - before < stored.nbytes / 10
    assert all(mine is not its for mine, its in zip(restored, stored._caches, strict=True))
    assert all(mine.keys is not its.keys for mine, its in zip(restored, stored._caches, strict=True))
