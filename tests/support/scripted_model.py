"""Folders of tiny models that call tools: each says what it is told to after a given last message."""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import mlx.core as mx
from mlx_lm.tokenizer_utils import load as load_tokenizer

from tests.support.families import VOCABULARY_SIZE
from tests.support.tiny import make_tiny_model

NETWORK = Path(__file__).with_name("scripted_network.py")

CUE_TOKENS = 160
"""As much of what was read decides what is said: the end of the last message, and the generation prompt."""

Line = tuple[Sequence[Mapping[str, Any]], str]
"""The last messages of a prompt, and what is said to them."""


def make_scripted_model(
    folder: Path,
    family: str,
    lines: Sequence[Line],
    *,
    chat_template: str,
    more_tokens: Sequence[str] = (),
    changes: Mapping[str, object] | None = None,
) -> Path:
    """Write the folder of a model that says `lines`; it runs its own code, so that a server has to trust it.

    `more_tokens`: texts that are one token each, such as the marks of thinking or of a call.
    """
    make_tiny_model(
        folder,
        family,
        chat_template=chat_template,
        changes={**(changes or {}), "vocab_size": VOCABULARY_SIZE + len(more_tokens)},
        more_tokens=more_tokens,
    )
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_file": "model.py"}))
    shutil.copy(NETWORK, folder / "model.py")
    tokenizer = load_tokenizer(folder)
    cues: list[tuple[int, ...]] = []
    says: list[int] = []
    for messages, line in lines:
        prompt = tokenizer.apply_chat_template(list(messages), add_generation_prompt=True, tokenize=False)
        read = tokenizer.encode(prompt, add_special_tokens=False)
        for token in (*tokenizer.encode(line, add_special_tokens=False), tokenizer.eos_token_id):
            cues.append(tuple(read[-CUE_TOKENS:]))
            says.append(token)
            read.append(token)
    factors = Random(1).choices(range(1, 2**32, 2), k=CUE_TOKENS)
    sums = [_sum(cue, factors) for cue in cues]
    assert len({(len(cue), total) for cue, total in zip(cues, sums, strict=True)}) == len(cues), (
        "two lines follow what looks the same; their messages must end otherwise"
    )
    mx.save_safetensors(
        str(folder / "script.safetensors"),
        {
            "factors": mx.array(factors, dtype=mx.uint32),
            "sums": mx.array(sums, dtype=mx.uint32),
            "lengths": mx.array([len(cue) for cue in cues]),
            "says": mx.array(says),
        },
    )
    return folder


def _sum(cue: Sequence[int], factors: Sequence[int]) -> int:
    """What `scripted_network.Model` makes of the tokens of a cue."""
    return sum((token + 1) * factor for token, factor in zip(reversed(cue), factors, strict=False)) % 2**32
