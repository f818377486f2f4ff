"""Keys and the certificate as values of the chart: what a file of keys allows, in JSON Schema."""

from app.auth.key import Scope
from charts.source.settings import SIZE
from charts.source.shapes import (
    BOOLEAN,
    NAME,
    OPTIONAL_NAME,
    SECRET_KEY,
    Schema,
    closed,
    if_then,
    matching,
    one_of,
    several,
    where,
    whole,
)

# What can name a key or a tenant (`app.auth.key.is_name`).
_KEY_NAME = "^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$"
# YAML's numbers are exact up to here.
_MOST = 2**53


def auth_schema() -> Schema:
    """`auth`: the name of a Secret, or keys by name with what a table of the file says, but for secrets."""
    key = closed(
        ("sha256",),
        sha256=matching("^[0-9a-fA-F]{64}$"),
        tenant=matching(_KEY_NAME),
        scopes=several(one_of(*(scope.value for scope in Scope)), least=1),
        quota_bytes={"anyOf": [whole(1, 2**50), SIZE]},
        max_concurrent=whole(1, _MOST),
        requests_per_minute=whole(1, _MOST),
    )
    keys: Schema = {
        "type": "object",
        "propertyNames": {"pattern": _KEY_NAME},
        "additionalProperties": key,
    }
    return {
        **closed(existingSecret=OPTIONAL_NAME, existingSecretKey=SECRET_KEY, keys=keys),
        **if_then(where("existingSecret", NAME), where("keys", {"maxProperties": 0})),
    }


def tls_schema() -> Schema:
    """`tls`: whether, the Secret with the certificate, and how others check it."""
    return closed(
        enabled=BOOLEAN,
        existingSecret=OPTIONAL_NAME,
        serverName=OPTIONAL_NAME,
        caConfigMap=OPTIONAL_NAME,
    )
