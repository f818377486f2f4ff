"""Random JSON schemas of the kinds that replies can be held to, each with a bounded reply.

Written for the sake of the tests alone, from JSON Schema 2020-12: it shares nothing with what compiles them.
"""

from typing import Any

from hypothesis import strategies as st

Schema = dict[str, Any]

NAMES = ("a", "b", "kind", "name of it", "ü", 'quo"te', "x/y", "$id")

_CONSTANTS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-99, 99),
    st.sampled_from(["", "x", "Zürich", 'a "b"', "\n", "</s>"]),
)


def _bounded(draw: st.DrawFn, kind: str) -> Schema:
    low = draw(st.integers(-200, 200))
    high = low + draw(st.integers(1, 300))
    exclusive = draw(st.booleans())
    return {"type": kind, "minimum": low, "exclusiveMaximum" if exclusive else "maximum": high + exclusive}


@st.composite
def _numbers(draw: st.DrawFn) -> Schema:
    if draw(st.booleans()):
        return _bounded(draw, draw(st.sampled_from(["integer", "number"])))
    multiple = draw(st.sampled_from([2, 5, 25]))
    return {"type": "integer", "multipleOf": multiple, "minimum": 0, "maximum": 1000}


@st.composite
def _strings(draw: st.DrawFn) -> Schema:
    if draw(st.booleans()):
        pattern = draw(st.sampled_from(["^[a-f]{1,4}$", "^(on|off)$", r"^\d{2}-\d{2}$", "^.{0,3}$"]))
        return {"type": "string", "pattern": pattern}
    shortest = draw(st.integers(0, 3))
    return {"type": "string", "minLength": shortest, "maxLength": shortest + draw(st.integers(0, 4))}


_LEAVES: st.SearchStrategy[Schema] = st.one_of(
    _numbers(),
    _strings(),
    st.sampled_from([{"type": "boolean"}, {"type": "null"}]),
    st.builds(lambda value: {"const": value}, _CONSTANTS),
    # `unique_by` kind and value, as True and 1 are one value to Python.
    st.lists(_CONSTANTS, min_size=1, max_size=4, unique_by=repr).map(lambda values: {"enum": values}),
    st.sampled_from([{"type": "string", "format": "uuid"}, {"type": "string", "format": "ipv4"}]),
    st.just({"type": ["boolean", "null"]}),
)


@st.composite
def _arrays(draw: st.DrawFn, inner: st.SearchStrategy[Schema]) -> Schema:
    if draw(st.booleans()):
        fixed = draw(st.lists(inner, min_size=1, max_size=2))
        return {"type": "array", "prefixItems": fixed, "items": False, "minItems": len(fixed)}
    fewest = draw(st.integers(0, 2))
    return {"type": "array", "items": draw(inner), "minItems": fewest, "maxItems": fewest + 1}


@st.composite
def _objects(draw: st.DrawFn, inner: st.SearchStrategy[Schema]) -> Schema:
    names = draw(st.lists(st.sampled_from(NAMES), max_size=3, unique=True))
    needed = [name for name in names if draw(st.booleans())]
    properties = {name: draw(inner) for name in names}
    return {"type": "object", "properties": properties, "required": needed, "additionalProperties": False}


@st.composite
def _choices(draw: st.DrawFn, inner: st.SearchStrategy[Schema]) -> Schema:
    if draw(st.booleans()):
        return {"anyOf": draw(st.lists(inner, min_size=1, max_size=3))}
    tagged = [
        {
            "type": "object",
            "properties": {"kind": {"const": kind}, "value": draw(inner)},
            "required": ["kind", "value"],
            "additionalProperties": False,
        }
        for kind in ("one", "two")
    ]
    return {"oneOf": tagged}


def _nested(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    return st.one_of(_arrays(inner), _objects(inner), _choices(inner))


_TREES = st.recursive(_LEAVES, _nested, max_leaves=6)


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    """A schema, sometimes with a definition that it refers to, which may refer to itself."""
    if not draw(st.integers(0, 3)):
        again = {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/part"}]}
        part = {
            "type": "object",
            "properties": {"value": draw(_LEAVES), "next": again},
            "required": ["value", "next"],
            "additionalProperties": False,
        }
        return {"$ref": "#/$defs/part", "$defs": {"part": part}}
    return draw(_TREES)
