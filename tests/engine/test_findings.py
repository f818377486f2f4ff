"""What the check of a model found is used again, until anything changes that it depends on."""

import dataclasses
import os
import shutil
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from mlx_lm.models.cache import BatchKVCache

from app.engine.findings import find
from app.engine.loader import LoadedModel, ModelSource, load_model
from app.engine.selfcheck import Capabilities, check
from tests.engine.conftest import no_progress
from tests.support.passes import counted_passes
from tests.support.tiny import make_tiny_model


@pytest.fixture
def model(tmp_path) -> LoadedModel:
    """A model in a folder of its own, with a file in a folder below."""
    folder = make_tiny_model(tmp_path / "model", "llama")
    (folder / "more").mkdir()
    (folder / "more" / "own.py").write_text("")
    return load_model(ModelSource(path=str(folder)), cache_folder=tmp_path, progress=no_progress)


@pytest.fixture
def passes(model, monkeypatch):
    """The passes over the model's weights so far."""
    return counted_passes(monkeypatch, model.network)


def found_again(model, passes, folder, **asked) -> bool:
    """Whether a model is found sound without a look at it, after it was checked there."""
    passes.clear()
    assert find(model, folder=folder, anew=False, **asked) == Capabilities()
    return not passes


@pytest.mark.parametrize("family", ["llama", "jamba", "llama4"])
def test_what_was_found_is_found_again_without_a_pass_over_the_weights(tiny, tmp_path, monkeypatch, family):
    """Shortcomings too, word for word."""
    loaded = tiny(family)
    first = find(loaded, folder=tmp_path, anew=False)
    passes = counted_passes(monkeypatch, loaded.network)

    assert find(loaded, folder=tmp_path, anew=False) == first
    assert passes == []
    assert first == check(loaded.network, vocabulary_size=len(loaded.tokenizer))


def test_a_model_is_checked_anew_where_that_is_asked_for(model, passes, tmp_path):
    """Whatever was found before."""
    find(model, folder=tmp_path / "checks", anew=False)
    passes.clear()

    find(model, folder=tmp_path / "checks", anew=True)

    assert passes


@pytest.mark.parametrize("file", ["model.safetensors", "config.json", "tokenizer.json", "more/own.py"])
def test_a_file_of_the_model_that_changes_has_it_checked_anew(model, passes, tmp_path, file):
    """Even where it is as long as before."""
    find(model, folder=tmp_path / "checks", anew=False)
    assert found_again(model, passes, tmp_path / "checks")

    os.utime(model.folder / file, ns=(1, 1))

    assert not found_again(model, passes, tmp_path / "checks")
    assert found_again(model, passes, tmp_path / "checks")


def test_a_file_that_comes_or_goes_has_the_model_checked_anew(model, passes, tmp_path):
    """A new shard, or code of the model's own."""
    find(model, folder=tmp_path / "checks", anew=False)
    new = model.folder / "model-2.safetensors"

    new.write_text("")
    assert not found_again(model, passes, tmp_path / "checks")
    new.unlink()
    assert not found_again(model, passes, tmp_path / "checks")


def test_an_adapter_is_part_of_the_model(model, passes, tmp_path):
    """With it, and after each change of it, the model is another."""
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapters.safetensors").write_text("1")
    find(model, folder=tmp_path / "checks", anew=False)
    adapted = dataclasses.replace(model, adapter=str(adapter))

    assert not found_again(adapted, passes, tmp_path / "checks")
    (adapter / "adapters.safetensors").write_text("22")
    assert not found_again(adapted, passes, tmp_path / "checks")
    assert found_again(model, passes, tmp_path / "checks")


@pytest.mark.parametrize("package", ["mlx", "mlx-lm"])
def test_another_version_of_what_runs_it_has_a_model_checked_anew(
    model, passes, tmp_path, monkeypatch, package
):
    """A release may break a family, or mend it."""
    find(model, folder=tmp_path / "checks", anew=False)
    monkeypatch.setattr("app.engine.findings.version", lambda name: "9" if name == package else version(name))

    assert not found_again(model, passes, tmp_path / "checks")


def test_another_version_of_samovar_has_a_model_checked_anew(model, passes, tmp_path, monkeypatch):
    """Its sealing and restoring are what is checked."""
    find(model, folder=tmp_path / "checks", anew=False)
    monkeypatch.setattr("app.engine.findings.__version__", "9")

    assert not found_again(model, passes, tmp_path / "checks")


@pytest.mark.parametrize("module", ["app.engine.kinds", "mlx_lm.models.cache", "mlx_lm.models.llama"])
def test_code_that_was_edited_in_place_has_a_model_checked_anew(model, passes, tmp_path, monkeypatch, module):
    """Its version is the same; its file is not."""
    find(model, folder=tmp_path / "checks", anew=False)
    loaded = sys.modules[module]
    edited = shutil.copyfile(str(loaded.__file__), tmp_path / "edited.py")
    monkeypatch.setattr(loaded, "__file__", str(edited))

    assert not found_again(model, passes, tmp_path / "checks")


def test_kernels_that_are_made_in_another_way_have_a_model_checked_anew(model, passes, tmp_path):
    """A machine that lost its compiler rounds in another way."""
    find(model, folder=tmp_path / "checks", anew=False)

    assert not found_again(model, passes, tmp_path / "checks", kernels="there is no g++")


def test_another_geometry_of_the_state_has_a_model_checked_anew(model, passes, tmp_path):
    """The signature of its caches says how the state is laid out."""
    find(model, folder=tmp_path / "checks", anew=False)

    assert not found_again(dataclasses.replace(model, cache_signature="other"), passes, tmp_path / "checks")


def test_what_an_error_decided_is_not_kept(model, passes, tmp_path, monkeypatch):
    """It may have been an accident; the next start looks again, and finds the model sound."""
    with monkeypatch.context() as broken:
        broken.setattr(BatchKVCache, "extend", lambda _self, _other: 1 / 0)
        assert not find(model, folder=tmp_path / "checks", anew=False).batched_decode

    assert not found_again(model, passes, tmp_path / "checks")


def test_two_models_are_kept_side_by_side_and_one_takes_one_file(model, passes, tmp_path):
    """However often it changes."""
    other = dataclasses.replace(model, folder=make_tiny_model(tmp_path / "other", "llama"))
    for each in (model, other, model):
        find(each, folder=tmp_path / "checks", anew=True)
        os.utime(each.folder / "config.json", ns=(2, 2))
        find(each, folder=tmp_path / "checks", anew=False)

    assert len(list((tmp_path / "checks").iterdir())) == 2
    assert found_again(model, passes, tmp_path / "checks")
    assert found_again(other, passes, tmp_path / "checks")


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"null", b'{"fingerprint":1,"found":{}}', b"\xff", b"[" * 100_000, b" " * 2**20],
)
def test_a_file_that_says_nothing_of_use_is_written_anew(model, passes, tmp_path, content):
    """Cut off, of another program, or far too long."""
    find(model, folder=tmp_path / "checks", anew=False)
    (file,) = (tmp_path / "checks").iterdir()
    file.write_bytes(content)

    assert not found_again(model, passes, tmp_path / "checks")
    assert found_again(model, passes, tmp_path / "checks")


def test_where_nothing_can_be_kept_a_model_is_checked_each_time(model, passes, tmp_path, caplog):
    """A home that cannot be written to keeps no server from its start."""
    caplog.set_level("INFO")
    (tmp_path / "checks").write_text("a file where the folder should be")

    assert not found_again(model, passes, tmp_path / "checks")
    assert not found_again(model, passes, tmp_path / "checks")
    assert "cannot be kept" in caplog.text


def test_a_write_that_fails_half_way_leaves_nothing_behind(model, tmp_path, monkeypatch):
    """A full disk must not fill up with halves."""

    def refuse(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)

    assert find(model, folder=tmp_path / "checks", anew=False) == Capabilities()
    assert list((tmp_path / "checks").iterdir()) == []


def test_a_model_whose_files_change_while_they_are_looked_at_is_checked(model, passes, tmp_path, monkeypatch):
    """Nothing can be said of them then, so nothing is kept."""

    def gone(file):
        raise FileNotFoundError(2, "No such file or directory", str(file))

    with monkeypatch.context() as racing:
        racing.setattr("app.engine.findings._when", gone)
        assert find(model, folder=tmp_path / "checks", anew=False) == Capabilities()

    assert not found_again(model, passes, tmp_path / "checks")
