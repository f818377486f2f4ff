"""Compiles what a reply may say, and says what of it cannot be followed. Knows no model's way of calling."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from llguidance import LLMatcher, LLParserLimits, LLTokenizer

from app.errors import RequestError

_KEPT = 64
"""So many compiled grammars are kept: clients send the same schema with every request."""

_OPTIONS: Mapping[str, Any] = {
    # One space, or a new line and its indentation: weak models would go on with white space for ever.
    "whitespace_pattern": r"( |\n( {0,40}|\t{0,12}))",
    # Without \u: half a surrogate pair, so escaped, is text to JSON and cannot be sent on by its reader.
    "json_allowed_escapes": 'nrbtf\\"',
}
"""Of every schema. A client's own `x-guidance`, which the library would read, does not count."""

_LIMITS = LLParserLimits(max_lexer_states=50_000, verbose_errors=False)
"""A state takes up to 2 kB, so that one reply's grammar stays below 100 MB; the other limits are the
library's, and bound a step's work to some 20 ms."""

_DRAWING = re.compile(r"\^*$|\d+ \||<non-verbose")
"""How a line of the library's begins that points into the text, or that says nothing."""

ANY_OBJECT: Mapping[str, Any] = {"type": "object"}


@dataclass(frozen=True, slots=True)
class SchemaAt:
    """A JSON schema and where the client wrote it: the field at fault, and words for a person."""

    schema: Mapping[str, Any]
    field: str
    whose: str


def json_rule(schema: Mapping[str, Any]) -> str:
    """What a Lark rule says for JSON text of that schema."""
    return "%json " + json.dumps(_as_compiled(schema))


class GrammarCompiler:
    """Makes matchers of grammars for one vocabulary. Blocks for up to a second where a schema is large."""

    def __init__(self, vocabulary: LLTokenizer) -> None:
        self._vocabulary = vocabulary
        self._compiled = lru_cache(maxsize=_KEPT)(self._compile)

    def matcher(self, grammar: str, *, schemas: tuple[SchemaAt, ...]) -> LLMatcher:
        """A matcher at the grammar's beginning, to be copied and never advanced.

        Args:
            grammar: in the library's form of Lark.
            schemas: what in it is the client's, to be named where it cannot be followed.

        Raises:
            RequestError: the grammar cannot be followed.
        """
        made, fault = self._compiled(grammar)
        if made is not None:
            return made
        for each in schemas:
            if reason := self._fault(each.schema):
                raise _refusal(each, reason)
        raise RequestError(
            f"what the reply has to be is too much to follow: {_in_one_line(fault)}.",
            param=schemas[0].field if schemas else None,
        )

    def _fault(self, schema: Mapping[str, Any]) -> str:
        """Why a schema by itself cannot be followed; empty where it can."""
        try:
            asked = LLMatcher.grammar_from_json_schema(json.dumps(_as_compiled(schema)))
        except ValueError as error:
            # Numbers and characters that are JSON to Python alone.
            return str(error)
        return LLMatcher.validate_grammar(asked, self._vocabulary, limits=_LIMITS)

    def _compile(self, grammar: str) -> tuple[LLMatcher | None, str]:
        made = LLMatcher(self._vocabulary, LLMatcher.grammar_from_lark(grammar), log_level=0, limits=_LIMITS)
        return (None, made.get_error()) if made.is_error() else (made, "")


def _as_compiled(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {**schema, "x-guidance": _OPTIONS}


def _refusal(schema: SchemaAt, reason: str) -> RequestError:
    return RequestError(
        f"{schema.field}: the JSON schema of {schema.whose} cannot be followed: {_in_one_line(reason)}.",
        param=schema.field,
        code="unsupported_schema",
    )


def _in_one_line(reason: str) -> str:
    """The library's words without its drawings of where in the text it was."""
    lines = [line.strip() for line in reason.splitlines()]
    return " ".join(line for line in lines if not _DRAWING.match(line)).rstrip(".")
