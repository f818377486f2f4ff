"""The server's settings as values of the chart: what the settings class allows, in JSON Schema."""

import msgspec

from app.settings.keys import Key, all_keys
from app.settings.units import Unit
from charts.source.shapes import NOT_EMPTY, Schema, closed, matching, whole

SET_BY_THE_CHART = frozenset(
    {
        *("model.path", "model.revision"),
        *("server.allow_unauthenticated", "server.tls_certificate", "server.tls_key"),
        "auth.key",
    }
)
"""What `model`, `auth` and `tls` of values.yaml say, and a secret, which no file of values should hold."""

# Other numbers of the chart are computed from durations, which templates cannot do with "1h30m".
_NARROWER: dict[str, Schema] = {
    "server.drain_seconds": whole(0, 86400),
    "snapshots.ttl": {"anyOf": [whole(1, 31_536_000), {"const": "off"}]},
    # The container's user may not listen below 1024.
    "server.port": whole(1024, 65535),
    # Bounds of its own: from 8 KiB to 16 MiB.
    "server.max_header_bytes": {
        "anyOf": [whole(8192, 2**24), matching("^(([89]|[1-9][0-9]{1,3})KiB|([1-9]|1[0-6])MiB)$")]
    },
}

# Within what the server takes, without its bounds: 1 PiB, 365 days.
SIZE = matching("^[1-9][0-9]{0,5}(\\.[0-9]+)?(B|KB|MB|GB|KiB|MiB|GiB)$")
_WITH_UNIT = {
    Unit.BYTES: SIZE,
    Unit.SECONDS: matching(
        "^([1-9][0-9]?d)?([1-9][0-9]{0,2}h)?([1-9][0-9]{0,3}m)?([1-9][0-9]{0,4}s)?([1-9][0-9]{0,2}ms)?$"
    )
    | NOT_EMPTY,
}


def settings_schema() -> Schema:
    """Every setting that the chart does not make itself, by section and key."""
    sections: dict[str, dict[str, Schema]] = {}
    alone: dict[str, Schema] = {}
    for key in all_keys():
        if key.dotted not in SET_BY_THE_CHART:
            keys = sections.setdefault(key.section, {}) if key.section else alone
            keys[key.name] = _schema(key)
    return closed(**alone, **{name: closed(**keys) for name, keys in sections.items()})


def _schema(key: Key) -> Schema:
    shape = _NARROWER.get(key.dotted)
    if shape is None:
        shape = msgspec.json.schema(key.annotation)
        shape.pop("description", None)
        if key.unit is not None:
            # Whole numbers only: of a small fraction YAML makes 1e-05, which the server does not read.
            numbers = [{**one, "type": "integer"} for one in shape.get("anyOf", [shape]) if "type" in one]
            words = [{"const": word} for word in key.words]
            shape = {"anyOf": [*numbers, _WITH_UNIT[key.unit], *words]}
    return {**shape, "description": key.description}
