"""Finding and loading models: what is wrong becomes one sentence."""

import gc
import json

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten
from mlx_lm.tool_parsers import qwen3_coder
from mlx_lm.tuner.utils import linear_to_lora_layers

from app.engine.batch_limits import BatchLimits
from app.engine.decoder import BatchDecoder
from app.engine.loader import ModelSource, context_length, load_model
from app.engine.memory import (
    default_max_arrays,
    device_memory,
    memory_limit_bytes,
    memory_limits,
)
from app.engine.tool_calls import tool_format
from app.engine.warmup import warm_up
from app.errors import ModelError
from tests.engine.conftest import no_progress
from tests.support.families import CONTEXT_LENGTH
from tests.support.templates import XML_CALLS
from tests.support.tiny import make_tiny_model


def load(tmp_path, **source):
    return load_model(ModelSource(**source), cache_folder=tmp_path, progress=no_progress)


def test_a_loaded_model_knows_its_name_family_and_caches(tiny):
    """What the rest of the program asks of a model."""
    dense, hybrid = tiny("llama"), tiny("qwen3_next")

    assert (dense.name, dense.family, dense.context_length) == ("llama", "llama", CONTEXT_LENGTH)
    assert (dense.cache_kinds, dense.truncatable) == (("KVCache",), True)
    assert (hybrid.cache_kinds, hybrid.truncatable) == (("ArraysCache", "KVCache"), False)
    assert dense.cache_signature != hybrid.cache_signature


def test_an_alias_is_the_name_and_the_models_own_names_still_work(tmp_path):
    """Clients may use either."""
    folder = make_tiny_model(tmp_path / "raw", "llama")

    model = load(tmp_path, path=str(folder), alias="house-model", context_length=512)

    assert (model.name, model.context_length) == ("house-model", 512)
    assert set(model.aliases) == {"raw", str(folder)}


def test_more_names_can_be_given(tmp_path):
    """Beside the alias and the model's own."""
    folder = make_tiny_model(tmp_path / "raw", "llama")

    model = load(tmp_path, path=str(folder), alias="house", more_aliases=("gpt-4o", "house"))

    assert model.name == "house"
    assert set(model.aliases) == {"gpt-4o", "raw", str(folder)}


def test_the_load_says_how_far_it_is(tmp_path):
    """Weights are told by their bytes, up to all of them, after the steps that cannot say."""
    folder = make_tiny_model(tmp_path / "m", "llama")
    told = []

    model = load_model(
        ModelSource(path=str(folder)),
        cache_folder=tmp_path,
        progress=lambda what, done, total: told.append((what, done, total)),
    )

    whole = sum(weight.nbytes for _, weight in tree_flatten(model.network.parameters()))
    assert told == [
        ("finding the model", 0, 1),
        ("finding the model", 1, 1),
        ("loading the weights", 0, whole),
        ("loading the weights", whole, whole),
    ]


def test_a_repositorys_code_does_not_run_unless_it_is_trusted(tmp_path):
    """A model whose class is in its own folder is refused in one sentence; trusted, its code runs."""
    folder = make_tiny_model(tmp_path / "m", "llama")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_file": "own.py"}))
    (folder / "own.py").write_text(
        "from pathlib import Path\nfrom mlx_lm.models.llama import *\n"
        "Path(__file__).with_name('ran').write_text('')\n"
    )

    with pytest.raises(ModelError, match=r"cannot be loaded: .*trust_remote_code"):
        load(tmp_path, path=str(folder))
    assert not (folder / "ran").exists()
    assert load(tmp_path, path=str(folder), trust_remote_code=True).family == "llama"
    assert (folder / "ran").exists()


def test_an_adapter_changes_what_the_model_says(tmp_path):
    """Its weights are in use, and states under it are not those of the bare model."""
    folder = make_tiny_model(tmp_path / "m", "llama")
    adapter = tmp_path / "adapter"
    bare = load(tmp_path, path=str(folder))
    make_adapter(bare.network, adapter)

    adapted = load(tmp_path, path=str(folder), adapter_path=str(adapter))

    prompt = mx.array([[1, 2, 3, 4]])
    assert not mx.allclose(bare.network(prompt), adapted.network(prompt))
    assert (bare.adapter, adapted.adapter) == ("", str(adapter))


def test_variables_of_the_template_that_are_ours_cannot_be_set(tmp_path):
    """Else a setting could decide what is rendered."""
    folder = make_tiny_model(tmp_path / "m", "llama")

    with pytest.raises(ModelError, match=r"messages, tools cannot be set in model\.template_kwargs"):
        load(tmp_path, path=str(folder), template_kwargs={"tools": [], "messages": [], "mood": "good"})


def make_adapter(network, folder):
    """Write a LoRA adapter of the network's attention, with weights that are not zero."""
    settings = {"rank": 4, "scale": 10.0, "dropout": 0.0}
    linear_to_lora_layers(network, 1, settings)
    mx.random.seed(1)
    weights = {
        name: mx.random.normal(weight.shape)
        for name, weight in tree_flatten(network.parameters())
        if "lora_" in name
    }
    folder.mkdir()
    mx.save_safetensors(str(folder / "adapters.safetensors"), weights)
    (folder / "adapter_config.json").write_text(
        json.dumps({"fine_tune_type": "lora", "num_layers": 1, "lora_parameters": settings})
    )


def test_a_chat_template_of_ones_own_replaces_the_models(tmp_path):
    """From a Jinja file, or from a tokenizer_config.json."""
    folder = make_tiny_model(tmp_path / "m", "llama")
    (tmp_path / "own.jinja").write_text("OWN {{ messages[0]['content'] }}")
    (tmp_path / "own.json").write_text(json.dumps({"chat_template": "JSON {{ messages[0]['content'] }}"}))

    for file, start in (("own.jinja", "OWN hi"), ("own.json", "JSON hi")):
        model = load(tmp_path, path=str(folder), chat_template=str(tmp_path / file))
        messages = [{"role": "user", "content": "hi"}]
        assert model.tokenizer.apply_chat_template(messages, tokenize=False) == start


def test_a_chat_template_of_ones_own_says_how_tools_are_called(tmp_path):
    """The format of calls is found in the template that is used, not in the one it replaces."""
    folder = make_tiny_model(tmp_path / "m", "llama")
    (tmp_path / "own.jinja").write_text(XML_CALLS)

    assert tool_format(load(tmp_path, path=str(folder)).tokenizer) is None
    own = load(tmp_path, path=str(folder), chat_template=str(tmp_path / "own.jinja"))
    assert own.tokenizer.tool_parser is qwen3_coder.parse_tool_call


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ({"path": "/no/such/folder"}, "does not exist"),
        ({"path": "not a repo!"}, "neither a model folder nor a repository name"),
        ({"path": "{empty}"}, "no config.json"),
        ({"path": "{model}", "adapter_path": "/no/adapter"}, "adapter folder /no/adapter does not exist"),
        ({"path": "{model}", "chat_template": "/no/template"}, "cannot be read"),
        ({"path": "{model}", "chat_template": "{model}/config.json"}, "without a chat_template"),
        ({"path": "{strange}"}, "cannot be loaded: Model type never_heard_of not supported"),
        ({"path": "{damaged}"}, "cannot be loaded"),
    ],
)
def test_what_cannot_be_loaded_is_one_sentence(tmp_path, source, complaint):
    """Which model, and what is wrong with it."""
    folders = {name: tmp_path / name for name in ("empty", "model", "strange", "damaged")}
    folders["empty"].mkdir()
    for name in ("model", "strange", "damaged"):
        make_tiny_model(folders[name], "llama")
    (folders["strange"] / "config.json").write_text(json.dumps({"model_type": "never_heard_of"}))
    (folders["damaged"] / "model.safetensors").write_bytes(b"not weights")

    with pytest.raises(ModelError) as refusal:
        load(tmp_path, **{key: value.format(**folders) for key, value in source.items()})

    assert complaint in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("config", "length"),
    [
        ({"max_position_embeddings": 4096}, 4096),
        ({"text_config": {"max_position_embeddings": 1024}}, 1024),
        ({"n_positions": 77}, 77),
        ({}, 8192),
    ],
)
def test_the_context_length_is_what_the_config_promises(config, length):
    """At top level or in the text part; a round number where nothing is said."""
    assert context_length(config) == length


def test_the_first_reply_proves_the_model_and_leaves_nothing(tiny):
    """Warm-up runs the real decoder and cleans up behind itself."""
    model = tiny("llama")
    limits = BatchLimits(max_running=2, prefill_batch=2, prefill_step_tokens=16)
    decoder = BatchDecoder(model.network, end_tokens=model.tokenizer.eos_token_ids, limits=limits)
    told = []

    warm_up(decoder, model, progress=lambda *what: told.append(what))

    assert told == [("warming up", 0, 1), ("warming up", 1, 1)]
    assert decoder._rows == {}


def test_a_model_that_cannot_speak_is_found_at_the_start(tiny):
    """Not by the first client."""
    model = tiny("llama")

    class Mute(BatchDecoder):
        def admit(self, *_args: object, **_options: object) -> None:
            raise RuntimeError("shapes do not match")

    limits = BatchLimits(max_running=2, prefill_batch=2, prefill_step_tokens=16)
    mute = Mute(model.network, end_tokens=[], limits=limits)

    with pytest.raises(ModelError, match="was loaded but cannot generate: shapes do not match"):
        warm_up(mute, model, progress=no_progress)


def test_the_devices_memory_is_told_in_bytes_by_kind():
    """What is in use shows up, and the limit is that of a real machine."""
    gc.collect()  # what earlier tests left must not be freed between the two readings
    before = device_memory(2**30)["active"]
    held = mx.zeros((1024, 1024), dtype=mx.float32)
    mx.eval(held)

    assert device_memory(2**30)["active"] - before >= held.nbytes
    assert memory_limit_bytes() > 2**30
    limits = memory_limits(2**30, 2**20)
    assert 2 * limits.available_bytes(2**20) == 2**30 - 2 * 2**20
    assert limits.available_bytes(2**30) == 1, "a model that fills the memory leaves a valid limit"
    assert default_max_arrays() != 0
