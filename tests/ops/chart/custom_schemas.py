"""JSON schemas of the custom resources that the chart makes, made strict: a key nobody knows is refused.

The Prometheus operator's, KEDA's and Istio's come from models of their definitions. The three kinds of the
gateways, for which there are none, are written down here as far as the chart uses them, after the definitions
of the Gateway API's `v1` and of Envoy Gateway 1.9's `v1alpha1`.
"""

from functools import cache
from typing import Any

from cloudcoil.models.istio.networking.v1 import DestinationRule
from cloudcoil.models.keda.v1alpha1 import ScaledObject
from cloudcoil.models.prometheus_operator.v1 import PodMonitor, PrometheusRule, ServiceMonitor
from cloudcoil.models.prometheus_operator.v1alpha1 import ScrapeConfig
from jsonschema import Draft202012Validator

Schema = dict[str, Any]

_MODELS = {
    "monitoring.coreos.com/v1": (ServiceMonitor, PodMonitor, PrometheusRule),
    "monitoring.coreos.com/v1alpha1": (ScrapeConfig,),
    "keda.sh/v1alpha1": (ScaledObject,),
    "networking.istio.io/v1": (DestinationRule,),
}


def _object(required: tuple[str, ...] = (), **properties: Schema) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _text(pattern: str = "", longest: int = 253) -> Schema:
    return {"type": "string", "minLength": 1, "maxLength": longest, "pattern": pattern}


def _list(item: Schema, most: int) -> Schema:
    return {"type": "array", "items": item, "minItems": 1, "maxItems": most}


_SEGMENT = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAME = _text(rf"^{_SEGMENT}(\.{_SEGMENT})*$")
_GROUP = _text(rf"^{_SEGMENT}(\.{_SEGMENT})*$")
_KIND = _text("^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$", 63)
_DURATION = _text("^([0-9]{1,5}(h|m|s|ms)){1,4}$")
_PORT: Schema = {"type": "integer", "minimum": 1, "maximum": 65535}
_COUNT: Schema = {"type": "integer", "minimum": 1}
_METADATA = _object(
    ("name", "namespace"),
    name=_NAME,
    namespace=_text(f"^{_SEGMENT}$", 63),
    labels={"type": "object", "additionalProperties": {"type": "string"}},
    annotations={"type": "object", "additionalProperties": {"type": "string"}},
)

_HTTP_ROUTE = _object(
    ("parentRefs", "rules"),
    parentRefs=_list(
        _object(
            ("name",),
            group=_GROUP,
            kind=_KIND,
            name=_NAME,
            namespace=_text(f"^{_SEGMENT}$", 63),
            sectionName=_NAME,
            port=_PORT,
        ),
        32,
    ),
    hostnames=_list(_text(rf"^(\*\.)?{_SEGMENT}(\.{_SEGMENT})*$"), 16),
    rules=_list(
        _object(
            ("backendRefs",),
            matches=_list(
                _object(
                    path=_object(
                        type={"enum": ["Exact", "PathPrefix", "RegularExpression"]},
                        value=_text("^/", 1024),
                    )
                ),
                64,
            ),
            timeouts=_object(request=_DURATION, backendRequest=_DURATION),
            backendRefs=_list(_object(("name", "port"), name=_NAME, port=_PORT), 16),
        ),
        16,
    ),
)

_BACKEND_TRAFFIC_POLICY = _object(
    ("targetRefs",),
    targetRefs=_list(_object(("group", "kind", "name"), group=_GROUP, kind=_KIND, name=_NAME), 16),
    loadBalancer=_object(
        ("type", "consistentHash"),
        type={"const": "ConsistentHash"},
        consistentHash=_object(
            ("type", "header"), type={"const": "Header"}, header=_object(("name",), name=_text())
        ),
    ),
    healthCheck=_object(
        active=_object(
            ("type", "http"),
            type={"const": "HTTP"},
            interval=_DURATION,
            timeout=_DURATION,
            unhealthyThreshold=_COUNT,
            healthyThreshold=_COUNT,
            http=_object(("path",), path=_text("^/", 1024)),
        )
    ),
)

# An authority is named in one of two ways, and not in both.
_BACKEND_TLS_POLICY = _object(
    ("targetRefs", "validation"),
    targetRefs=_list(
        _object(
            ("group", "kind", "name"),
            group={"type": "string", "maxLength": 253},
            kind=_KIND,
            name=_NAME,
            sectionName=_NAME,
        ),
        16,
    ),
    validation=_object(
        ("hostname",),
        hostname=_text(rf"^{_SEGMENT}(\.{_SEGMENT})*$"),
        caCertificateRefs=_list(
            _object(("group", "kind", "name"), group={"type": "string"}, kind=_KIND, name=_NAME), 8
        ),
        wellKnownCACertificates={"const": "System"},
    )
    | {
        "oneOf": [
            {"required": ["caCertificateRefs"]},
            {"required": ["wellKnownCACertificates"]},
        ]
    },
)

_WRITTEN_HERE = {
    ("gateway.networking.k8s.io/v1", "HTTPRoute"): _HTTP_ROUTE,
    ("gateway.networking.k8s.io/v1", "BackendTLSPolicy"): _BACKEND_TLS_POLICY,
    ("gateway.envoyproxy.io/v1alpha1", "BackendTrafficPolicy"): _BACKEND_TRAFFIC_POLICY,
}


def _strict(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: _strict(value) for key, value in schema.items()}
    return inner | {"additionalProperties": False} if "properties" in inner else inner


@cache
def custom_schemas() -> dict[tuple[str, str], Draft202012Validator]:
    """(apiVersion, kind) → what checks an object of it."""
    schemas: dict[tuple[str, str], Schema] = {
        (version, model.__name__): _strict(model.model_json_schema(by_alias=True))
        for version, models in _MODELS.items()
        for model in models
    }
    for (version, kind), spec in _WRITTEN_HERE.items():
        schemas[version, kind] = _object(
            ("apiVersion", "kind", "metadata", "spec"),
            apiVersion={"const": version},
            kind={"const": kind},
            metadata=_METADATA,
            spec=spec,
        )
    return {key: Draft202012Validator(schema) for key, schema in schemas.items()}
