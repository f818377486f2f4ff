"""Random tools whose parameters every form of calls can write, and whose calls a schema can judge."""

from typing import Any

from hypothesis import strategies as st

PLAIN_NAMES = ("a", "town", "days", "kind_of", "Über", "x9")

_CHOICES = st.lists(
    st.sampled_from(["Bern", "slow and sure", "Zürich", 'quo"te', "a<b", "5", "true", "x, y", "it's"]),
    min_size=1,
    max_size=3,
    unique=True,
)

_SCALARS: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.just({"type": "string"}),
    st.just({"type": "boolean"}),
    st.just({"type": "null"}),
    st.integers(-50, 50).map(lambda low: {"type": "integer", "minimum": low, "maximum": low + 9}),
    st.just({"type": "number", "minimum": 0, "exclusiveMaximum": 2}),
    _CHOICES.map(lambda choices: {"type": "string", "enum": choices}),
    _CHOICES.map(lambda choices: {"enum": choices}),
    st.sampled_from([{"const": "up"}, {"const": 7}, {"enum": [1, 2, 3]}, {"enum": [True, False]}]),
    st.just({"$ref": "#/$defs/level"}),
    st.just({"type": ["integer", "null"], "minimum": 0, "maximum": 5}),
    st.just({"anyOf": [{"type": "integer", "minimum": 0, "maximum": 5}, {"type": "null"}]}),
    st.just({"anyOf": [{"type": "string"}, {"type": "null"}]}),
)

# A closing tag in the text of a list would end the list, in forms that write lists between tags.
_UNFREE = _SCALARS.filter(lambda schema: schema.get("type") != "string" or "enum" in schema).filter(
    lambda schema: {"type": "string"} not in schema.get("anyOf", ())
)

_NESTED: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.just({"$ref": "#/$defs/days"}),
    st.just({"$ref": "#/$defs/tree"}),
    st.just({"enum": [[1, 2], {"on": True}, None]}),
    st.tuples(_UNFREE, st.integers(0, 2)).map(
        lambda of: {"type": "array", "items": of[0], "minItems": of[1], "maxItems": of[1] + 2}
    ),
    st.dictionaries(st.sampled_from(PLAIN_NAMES), _UNFREE, min_size=1, max_size=2).flatmap(
        lambda named: st.sets(st.sampled_from(sorted(named))).map(
            lambda needed: {
                "type": "object",
                "properties": named,
                "required": sorted(needed),
                "additionalProperties": False,
            }
        )
    ),
)

_DEFINITIONS = {
    "level": {"type": "integer", "minimum": 1, "maximum": 3},
    "days": {"type": "array", "items": {"$ref": "#/$defs/level"}, "maxItems": 3},
    "tree": {
        "type": "object",
        "properties": {"level": {"$ref": "#/$defs/level"}, "next": {"$ref": "#/$defs/tree"}},
        "required": ["level"],
        "additionalProperties": False,
    },
}


@st.composite
def tools(draw: st.DrawFn, *, flat: bool) -> list[dict[str, Any]]:
    """One tool or two, as a request has them; `flat`: without lists and objects as arguments."""
    kinds = _SCALARS if flat else st.one_of(_SCALARS, _NESTED)
    offered = []
    for name in draw(st.sampled_from([("set",), ("weather", "now")])):
        properties = draw(st.dictionaries(st.sampled_from(PLAIN_NAMES), kinds, max_size=3))
        needed = [each for each in properties if draw(st.booleans())]
        parameters = {
            "type": "object",
            "properties": properties,
            "required": needed,
            "additionalProperties": False,
            "$defs": _DEFINITIONS,
        }
        # Some tools say nothing of parameters.
        told = (
            {"name": name}
            if name == "now" and draw(st.booleans())
            else {"name": name, "parameters": parameters}
        )
        offered.append({"type": "function", "function": told})
    return offered
