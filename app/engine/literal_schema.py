"""A JSON schema as a grammar of literals that are almost JSON: keys without quotes, text between two marks.

Text is free but for its marks: lengths and patterns are not held to, choices are.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from app.engine.call_writing import ordered, text
from app.engine.grammar import json_rule
from app.engine.parameter_types import choices_of, types_of

_TYPES = ("string", "integer", "number", "boolean", "null", "array", "object")
_FLAT_TYPES = frozenset(_TYPES) - {"array", "object"}
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_UNSERVED = frozenset(
    {
        *(
            "allOf",
            "not",
            "if",
            "then",
            "else",
            "prefixItems",
            "contains",
            "uniqueItems",
            "patternProperties",
        ),
        *("propertyNames", "minProperties", "maxProperties", "dependentRequired", "dependentSchemas"),
        *("unevaluatedProperties", "unevaluatedItems", "dependencies", "additionalItems"),
    }
)
_MOST_ITEMS = 1000

Schema = Mapping[str, Any]


def _exclude_each_other(branches: Sequence[Any]) -> bool:
    """Whether no value can be of two branches, by their types."""
    types = [types_of(each) if isinstance(each, Mapping) else frozenset() for each in branches]
    seen = [kind for each in types for kind in {"number" if kind == "integer" else kind for kind in each}]
    return all(types) and len(seen) == len(set(seen))


class Unwritable(Exception):  # noqa: N818 - it says of a schema what is so, and is no failure
    """A value that these literals have no way to write, or that this module does not know how to hold to."""


class LiteralSchema:
    """Writes rules for the values of one tool's parameters.

    Args:
        prefix: what the rules' names begin with.
        root: the tool's schema, to which references refer.
        quote: what a rule says for the mark around text; a rule `string` is any text with its marks.
        kept_out: what text cannot have in it.
        flat: whether there are neither lists nor objects.

    `rules` are those that the values need; they grow as values are asked for.
    """

    key = '/[A-Za-z0-9_]{1,64}/ ":"'

    def __init__(self, prefix: str, root: Schema, *, quote: str, kept_out: Sequence[str], flat: bool) -> None:
        self._prefix = prefix
        self._root = root
        self._quote = quote
        self._kept_out = tuple(word for word in kept_out if word)
        self._flat = flat
        self._named: dict[str, str] = {}
        self._parts = 0
        self.rules: list[str] = []

    def value(self, schema: Any) -> str:
        """What a rule says for a value of that schema.

        Raises:
            Unwritable: there is no way, or the schema has a keyword that is not served.
        """
        if schema is True or schema == {}:
            return self.any_value()
        if not isinstance(schema, Mapping):
            raise Unwritable("can have no value")
        if unserved := sorted(_UNSERVED & schema.keys()):
            raise Unwritable(f"has {', '.join(unserved)} in its schema")
        if "$ref" in schema:
            return self._referred(str(schema["$ref"]))
        choices = choices_of(schema)
        if choices is not None:
            return self._one_of([self._literal(choice) for choice in choices if self._can_write(choice)])
        for key in ("anyOf", "oneOf"):
            if key in schema:
                if key == "oneOf" and not _exclude_each_other(schema[key]):
                    raise Unwritable("has a oneOf whose branches may overlap")
                return self._one_of([self.value(each) for each in schema[key]])
        return self._of_types(schema)

    def any_value(self) -> str:
        """What a rule says for any value."""
        name = f"{self._prefix}_any"
        if name not in self._named:
            self._named[name] = name
            of_number = json_rule({"type": "number"})
            said = f'string | {of_number} | "true" | "false" | "null"'
            if not self._flat:
                member = f"{self.key} {name}"
                said += f' | "[" ({name} ("," {name})*)? "]" | "{{" ({member} ("," {member})*)? "}}"'
            self.rules.append(f"{name}: {said}")
        return name

    def _of_types(self, schema: Schema) -> str:
        named = schema.get("type", _TYPES)
        types = [named] if isinstance(named, str) else list(named)
        if self._flat and "type" in schema and not _FLAT_TYPES.issuperset(types):
            raise Unwritable("is an array or an object, which cannot be written there")
        return self._one_of(
            [self._of_type(each, schema) for each in types if not self._flat or each in _FLAT_TYPES]
        )

    def _of_type(self, kind: str, schema: Schema) -> str:
        match kind:
            case "string":
                return "string"
            case "integer" | "number":
                return json_rule({"type": kind, **{key: schema[key] for key in _BOUNDS if key in schema}})
            case "boolean":
                return '("true" | "false")'
            case "null":
                return '"null"'
            case "array":
                return self._array(schema)
            case _:
                return self._object(schema)

    def _array(self, schema: Schema) -> str:
        fewest, most = schema.get("minItems", 0), schema.get("maxItems")
        if most is not None and (most < fewest or most > _MOST_ITEMS):
            raise Unwritable("is an array of more items than can be held to")
        if most == 0:
            return '"[]"'
        item = self._rule(self.value(schema.get("items", True)))
        times = (
            "*"
            if most is None and fewest <= 1
            else f"{{{max(fewest - 1, 0)},{'' if most is None else most - 1}}}"
        )
        some = f'{item} ("," {item}){times}'
        return f'"[" {some} "]"' if fewest else f'"[" ({some})? "]"'

    def _object(self, schema: Schema) -> str:
        needed = schema.get("required", ())
        named = schema.get("properties", {})
        if missing := [name for name in needed if name not in named]:
            raise Unwritable(f"requires '{missing[0]}', of which its schema says nothing")
        if not named:
            more = schema.get("additionalProperties", True)
            if more is False:
                return '"{}"'
            member = f"{self.key} {self._rule(self.value(more))}"
            return f'"{{" ({member} ("," {member})*)? "}}"'
        items = []
        for name, each in named.items():
            if each is False and name not in needed:
                continue
            if not re.fullmatch(r"\w+", name):
                if name in needed:
                    raise Unwritable(f"requires '{name}', which is no name that can be read there")
                continue
            items.append((f"{text(f'{name}:')} {self.value(each)}", name in needed))
        if not items:
            return '"{}"'
        said, rules = ordered(self._new_name(), items, '","')
        self.rules += rules
        return f'"{{" {said} "}}"'

    def _referred(self, reference: str) -> str:
        if reference in self._named:
            return self._named[reference]
        _, _, place = reference.partition("#/")
        found: Any = self._root
        for part in place.split("/"):
            found = found.get(part) if isinstance(found, Mapping) else None
        if found is None or not reference.startswith("#/"):
            raise Unwritable(f"refers to {reference}, which is not in its schema")
        # Named before it is written: it may refer to itself.
        name = self._named[reference] = self._new_name()
        self.rules.append(f"{name}: {self.value(found)}")
        return name

    def _literal(self, value: Any) -> str:
        """What a rule says for exactly this value."""
        if isinstance(value, str):
            return f"{self._quote} {text(value)} {self._quote}" if value else f"{self._quote} {self._quote}"
        if isinstance(value, list):
            return " ".join(['"["', ' "," '.join(map(self._literal, value)), '"]"'])
        if isinstance(value, dict):
            members = (f"{text(f'{name}:')} {self._literal(each)}" for name, each in value.items())
            return " ".join(['"{"', ' "," '.join(members), '"}"'])
        return text(json.dumps(value))

    def _can_write(self, value: Any) -> bool:
        if isinstance(value, str):
            return not any(word in value for word in self._kept_out)
        if isinstance(value, list):
            return not self._flat and all(map(self._can_write, value))
        if isinstance(value, dict):
            return not self._flat and all(
                re.fullmatch(r"\w+", name) and self._can_write(each) for name, each in value.items()
            )
        return True

    def _one_of(self, said: Sequence[str]) -> str:
        if not said:
            raise Unwritable("has no value that can be written there")
        return f"({' | '.join(said)})"

    def _rule(self, said: str) -> str:
        """The same as a rule of its own, to be named more than once."""
        name = self._new_name()
        self.rules.append(f"{name}: {said}")
        return name

    def _new_name(self) -> str:
        self._parts += 1
        return f"{self._prefix}_part_{self._parts}"
