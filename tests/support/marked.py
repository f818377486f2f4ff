"""Tiny random models whose vocabulary has marks, of thinking or of calls, and a parser for the calls."""

import json
from collections.abc import Sequence
from pathlib import Path

from app.engine.loader import LoadedModel, ModelSource, load_model
from tests.support.families import VOCABULARY_SIZE
from tests.support.tiny import CHATML, make_tiny_model


def marked_model(
    folder: Path,
    marks: Sequence[str],
    *,
    parser: str | None = None,
    family: str = "llama",
    chat_template: str = CHATML,
) -> LoadedModel:
    """A model with a token for each mark, in order, after those of every tiny model."""
    make_tiny_model(
        folder,
        family,
        chat_template=chat_template,
        changes={"vocab_size": VOCABULARY_SIZE + len(marks)},
        more_tokens=marks,
    )
    settings = folder / "tokenizer_config.json"
    named = {} if parser is None else {"tool_parser_type": parser}
    settings.write_text(json.dumps({**json.loads(settings.read_text()), **named}))
    return load_model(
        ModelSource(path=str(folder)), cache_folder=folder, progress=lambda _what, _done, _total: None
    )
