"""What a tool's parameters are, references followed, as parsers of calls have to be told. Knows no form."""

from collections.abc import Mapping
from typing import Any

_NAMES = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
_MOST_REFERENCES = 16
"""In a row: a schema may refer to itself."""


def parameters_of(schema: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """Name → schema of each parameter, with a reference to the tool's own definitions followed.

    A parameter that nothing can satisfy is left out, and one whose values have one type in common gets it.
    """
    named = schema.get("properties")
    if not isinstance(named, Mapping):
        return {}
    return {name: _typed(_followed(each, schema)) for name, each in named.items() if each is not False}


def readable(tool: Mapping[str, Any]) -> dict[str, Any]:
    """The tool as its parser is given it: parsers look at a parameter's own type alone."""
    function = tool.get("function")
    schema = function.get("parameters") if isinstance(function, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(schema, Mapping) or "properties" not in schema:
        return dict(tool)
    told = {**schema, "properties": parameters_of(schema)}
    return {**tool, "function": {**function, "parameters": told}}


def types_of(schema: Mapping[str, Any]) -> frozenset[str]:
    """The types a value may have, as far as the schema names them; none: it names none."""
    named = schema.get("type", ())
    found = {named} if isinstance(named, str) else set(named)
    found |= {type_of(choice) for choice in choices_of(schema) or ()}
    for key in ("anyOf", "oneOf", "allOf"):
        for each in schema.get(key, ()):
            found |= types_of(each) if isinstance(each, Mapping) else set()
    return frozenset(found)


def choices_of(schema: Mapping[str, Any]) -> list[Any] | None:
    """The values that a choice has; None where it is none."""
    if "const" in schema:
        return [schema["const"]]
    return list(schema["enum"]) if isinstance(schema.get("enum"), list) else None


def type_of(value: Any) -> str:
    """JSON Schema's name of a value's type."""
    return _NAMES.get(type(value), "null")


def definitions_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    """What the schema's references refer to, for a part of it to take along."""
    return {key: schema[key] for key in ("$defs", "definitions") if key in schema}


def _followed(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    for _ in range(_MOST_REFERENCES):
        if not isinstance(schema, Mapping):
            return {}
        found = _referred(schema, root)
        if found is None:
            return schema
        schema = {**found, **{key: value for key, value in schema.items() if key != "$ref"}}
    return {}


def _referred(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What it refers to, if that is one of the tool's definitions."""
    _, _, place = str(schema.get("$ref", "")).partition("#/")
    kept, _, name = place.partition("/")
    found = root.get(kept, {}).get(name) if kept in ("$defs", "definitions") else None
    return found if isinstance(found, Mapping) else None


def _typed(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """With the one type that its values have, besides null, where the schema does not say it itself.

    But for text: where null is possible, whoever is told of text alone takes the word for one.
    """
    types = types_of(schema)
    (only, *more) = types - {"null"} or {"null"}
    if isinstance(schema.get("type"), str) or more or (only == "string" and "null" in types) or not types:
        return schema
    return {**schema, "type": only}
