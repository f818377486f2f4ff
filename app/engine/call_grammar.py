"""How each family of models writes a tool call, as a grammar: the marks, the name, arguments by schema.

Knows neither tokens nor a compiler. The formats are those of mlx-lm's parsers of the same names.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.engine.grammar import json_rule

Mark = Callable[[str], str]
"""A mark's text → what a rule says for it."""


@dataclass(frozen=True, slots=True)
class Callable_:
    """A tool that may be called. `schema`: of its arguments, an object's."""

    name: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRules:
    """Rules of a grammar for calls.

    `one` and `many` say what comes after the mark that begins a call, up to its end: one call, or one and
    more. `text_follows`: whether text may come after a call, and a further call after that.
    """

    rules: str
    one: str
    many: str
    text_follows: bool = True
