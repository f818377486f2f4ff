"""Shapes that values of the chart have, as JSON Schema. Knows no value by name.

Helm reads the patterns with Go's engine: no look-ahead, no back-reference. Limits are Kubernetes' own: a DNS
label has 63 characters, a DNS name 253.
"""

from typing import Any

Schema = dict[str, Any]

_SEGMENT = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAME = rf"{_SEGMENT}(\.{_SEGMENT})*"
_WORD = "[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
_LABEL_KEY = rf"^([a-z0-9.-]+/)?{_WORD}$"
_FILE = "[A-Za-z0-9][A-Za-z0-9._-]*"

# The chart says these itself, and a second one of the same key is no YAML.
_OWN_LABELS = "^(app\\.kubernetes\\.io/(name|instance|version|managed-by)|helm\\.sh/chart)$"
_BYTE = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"


def whole(low: int, high: int) -> Schema:
    """A whole number of the range, both ends included."""
    return {"type": "integer", "minimum": low, "maximum": high}


def matching(pattern: str, *, longest: int | None = None) -> Schema:
    """Text of the pattern."""
    shape: Schema = {"type": "string", "pattern": pattern}
    return shape if longest is None else shape | {"maxLength": longest}


def one_of(*words: str) -> Schema:
    """One of the words."""
    return {"enum": list(words)}


def several(item: Schema, *, least: int = 0, most: int | None = None) -> Schema:
    """A list without anything twice."""
    shape: Schema = {"type": "array", "items": item, "minItems": least, "uniqueItems": True}
    return shape if most is None else shape | {"maxItems": most}


def closed(_required: tuple[str, ...] = (), /, **properties: Schema) -> Schema:
    """An object with these keys and no other."""
    shape: Schema = {"type": "object", "additionalProperties": False, "properties": properties}
    return shape | {"required": list(_required)} if _required else shape


def where(path: str, shape: Schema) -> Schema:
    """What holds for an object that has `shape` at the dotted path."""
    for key in reversed(path.split(".")):
        shape = {"properties": {key: shape}, "required": [key]}
    return shape


def if_then(condition: Schema, *consequences: Schema) -> Schema:
    """Where the condition holds, so do the consequences."""
    return {"if": condition, "then": {"allOf": list(consequences)}}


ANY_TEXT: Schema = {"type": "string"}
BOOLEAN: Schema = {"type": "boolean"}
NOT_EMPTY: Schema = {"minLength": 1}
ANYTHING_OF_KUBERNETES: Schema = {"type": "object"}
"""An object whose keys are Kubernetes' affair and differ between its versions."""

NAME = matching(f"^{_NAME}$", longest=253)
OPTIONAL_NAME = matching(f"^({_NAME})?$", longest=253)
SHORT_NAME = matching(f"^({_SEGMENT})?$", longest=50)
DNS_LABEL = matching(f"^{_SEGMENT}$", longest=63)
HOST = matching(rf"^(\*\.)?{_NAME}$", longest=253)
PORT = whole(1, 65535)
QUANTITY = matching("^[0-9]+(\\.[0-9]+)?([KMGTPE]i?|k|m)?$")
SECRET_KEY = matching("^[-._a-zA-Z0-9]+$", longest=253)
FOLDER = matching(f"^({_FILE}(/{_FILE})*)?$")
ABSOLUTE_FOLDER = matching(f"^(/{_FILE})*$")
PATH = matching(f"^(/{_FILE})+$")
CIDR = matching("^[0-9a-fA-F.:]+/[0-9]{1,3}$")
ADDRESS: Schema = {
    "anyOf": [matching(rf"^{_BYTE}(\.{_BYTE}){{3}}$"), matching("^[0-9a-fA-F:]*:[0-9a-fA-F:]*$")]
}
SHARE_OR_NONE: Schema = {"anyOf": [whole(0, 1000), matching("^([0-9]|[1-9][0-9]|100)%$")]}
SHARE: Schema = {"anyOf": [whole(1, 1000), matching("^([1-9]|[1-9][0-9]|100)%$")]}
METRIC = matching("^[a-zA-Z_:][a-zA-Z0-9_:]*$")
# A duration as the Gateway API has it, and one as Prometheus has it.
ROUTE_DURATION = matching("^([0-9]{1,5}(h|m|s|ms)){1,4}$")
SCRAPE_DURATION = matching("^[1-9][0-9]{0,4}(s|m|h)$")
LABEL_KEY = matching(_LABEL_KEY)
LABEL_VALUE = matching(f"^({_WORD})?$", longest=63)
LABELS: Schema = {
    "type": "object",
    "propertyNames": {"pattern": _LABEL_KEY, "not": {"pattern": _OWN_LABELS}},
    "additionalProperties": LABEL_VALUE,
}
SELECTED_LABELS: Schema = {"type": "object", "additionalProperties": ANY_TEXT}
ANNOTATIONS: Schema = {
    "type": "object",
    "propertyNames": {"pattern": _LABEL_KEY},
    "additionalProperties": ANY_TEXT,
}
ALERT_LABELS: Schema = {
    "type": "object",
    "propertyNames": {"pattern": "^[a-zA-Z_][a-zA-Z0-9_]*$"},
    "additionalProperties": ANY_TEXT,
}
