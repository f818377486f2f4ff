"""Values drawn from the chart's schema, so that what is tried is whatever a user may write, and no more.

The schema is our own, so this knows the words that charts/source/shapes.py uses and no other.
"""

from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
from jsonschema import Draft7Validator

if TYPE_CHECKING:
    from collections.abc import Callable

Schema = dict[str, Any]

# Where the schema hands on what Kubernetes has, something that Kubernetes takes.
_LABELLED = {"matchLabels": {"app": "x"}}
_SAMPLES: dict[str, Any] = {
    "gateway.parentRefs": [{"name": "public", "namespace": "gateways"}],
    "settings.model.template_kwargs": {"enable_thinking": False},
    # The server alone can say whether a text is a regular expression of Python.
    "settings.snapshots.ignored_system_lines": "^Today is .*$",
    "networkPolicy.from": [{"namespaceSelector": _LABELLED}, {"ipBlock": {"cidr": "10.0.0.0/8"}}],
    "networkPolicy.egress": [{"to": [{"podSelector": _LABELLED}]}],
    "metrics.scrape.metricRelabelings": [{"action": "labeldrop", "regex": "job"}],
    "podSecurityContext": {"runAsUser": 1000},
    "securityContext": {"runAsNonRoot": True},
    "tolerations": [{"key": "gpu", "operator": "Exists"}],
    "affinity": {"podAntiAffinity": {}},
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"},
    ],
    "extraEnv": [{"name": "OMP_NUM_THREADS", "value": "4"}],
    "extraVolumes": [{"name": "more", "emptyDir": {}}],
    "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
    "extraObjects": [{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one", "namespace": "two"}}],
}


def values_strategy(schema: Schema, defaults: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Files of values: a few sections each, anything in them, valid with the defaults around them."""
    validator = Draft7Validator(schema)
    sections = sorted(schema["properties"])

    def drawn(names: list[str]) -> st.SearchStrategy[dict[str, Any]]:
        return st.fixed_dictionaries({name: _values(schema["properties"][name], name) for name in names})

    return (
        st.lists(st.sampled_from(sections), min_size=1, max_size=6, unique=True)
        .flatmap(drawn)
        .filter(lambda values: validator.is_valid(merged(defaults, values)))
    )


def merged(defaults: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """Values over defaults as Helm lays them: objects key by key, anything else as a whole."""
    result = dict(defaults)
    for key, value in values.items():
        below = result.get(key)
        result[key] = merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return result


def _values(schema: Schema, path: str) -> st.SearchStrategy[Any]:
    if path in _SAMPLES:
        sample = _SAMPLES[path]
        return st.sampled_from([type(sample)(), sample])
    if "anyOf" in schema:
        return st.one_of([_values(option, path) for option in schema["anyOf"]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "const" in schema:
        return st.just(schema["const"])
    return _of_type(schema, path)


def _of_type(schema: Schema, path: str) -> st.SearchStrategy[Any]:
    makers: dict[str, Callable[[Schema, str], st.SearchStrategy[Any]]] = {
        "boolean": lambda _schema, _path: st.booleans(),
        "integer": lambda schema, _path: _whole(schema),
        "number": lambda schema, _path: st.floats(schema["minimum"], schema["maximum"]),
        "string": lambda schema, _path: _text(schema),
        "array": _list,
        "object": _object,
    }
    return makers[schema["type"]](schema, path)


def _whole(schema: Schema) -> st.SearchStrategy[int]:
    low = schema["minimum"] if "minimum" in schema else schema["exclusiveMinimum"] + 1
    return st.integers(low, int(schema.get("maximum", 2**50)))


def _list(schema: Schema, path: str) -> st.SearchStrategy[list[Any]]:
    most = min(schema.get("maxItems", 3), 3)
    item = _values(schema["items"], f"{path}[]")
    return st.lists(item, min_size=schema["minItems"], max_size=most, unique_by=repr)


def _object(schema: Schema, path: str) -> st.SearchStrategy[dict[str, Any]]:
    if "properties" not in schema:
        pattern = schema.get("propertyNames", {}).get("pattern", "^[a-z]{1,8}$")
        keys = st.from_regex(pattern, fullmatch=True)
        return st.dictionaries(keys, _values(schema["additionalProperties"], path), max_size=2)
    drawn = {key: _values(shape, f"{path}.{key}") for key, shape in schema["properties"].items()}
    required = {key: drawn.pop(key) for key in schema.get("required", ())}
    return st.fixed_dictionaries(required, optional=drawn)


def _text(schema: Schema) -> st.SearchStrategy[str]:
    if "pattern" not in schema:
        return st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20)
    texts = st.from_regex(schema["pattern"], fullmatch=True, alphabet=st.characters(max_codepoint=126))
    low, high = schema.get("minLength", 0), schema.get("maxLength", 40)
    return texts.filter(lambda text: low <= len(text) <= high and text.isprintable())
