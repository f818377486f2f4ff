"""The shape of values.yaml, from which values.schema.json is made. Knows no default and no description."""

from charts.source.auth import auth_schema, tls_schema
from charts.source.settings import settings_schema
from charts.source.shapes import (
    ABSOLUTE_FOLDER,
    ADDRESS,
    ALERT_LABELS,
    ANNOTATIONS,
    ANY_TEXT,
    ANYTHING_OF_KUBERNETES,
    BOOLEAN,
    CIDR,
    DNS_LABEL,
    FOLDER,
    HOST,
    LABEL_KEY,
    LABEL_VALUE,
    LABELS,
    METRIC,
    NAME,
    NOT_EMPTY,
    OPTIONAL_NAME,
    PATH,
    PORT,
    QUANTITY,
    ROUTE_DURATION,
    SCRAPE_DURATION,
    SECRET_KEY,
    SELECTED_LABELS,
    SHARE,
    SHARE_OR_NONE,
    SHORT_NAME,
    Schema,
    closed,
    if_then,
    matching,
    one_of,
    several,
    where,
    whole,
)

_ON: Schema = {"const": True}
_NOTHING: Schema = {"const": ""}
_DAY = 86400
_AS_KUBERNETES_HAS_THEM = several(ANYTHING_OF_KUBERNETES)


def values_schema() -> Schema:
    """The whole schema, without what the values mean."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Values of the chart samovar",
        **closed(
            nameOverride=SHORT_NAME,
            fullnameOverride=SHORT_NAME,
            commonLabels=LABELS,
            image=_image(),
            replicaCount=whole(0, 1000),
            model=_model(),
            cache=_cache(),
            auth=auth_schema(),
            tls=tls_schema(),
            settings=settings_schema(),
            resources=closed(
                requests={"type": "object", "additionalProperties": QUANTITY},
                limits={"type": "object", "additionalProperties": QUANTITY},
            ),
            gpu=closed(
                enabled=BOOLEAN,
                resource=matching("^[a-z0-9.-]+/[A-Za-z0-9._-]+$"),
                count=whole(1, 16),
            ),
            strategy=_strategy(),
            shutdown=closed(preStopSeconds=whole(0, 600), marginSeconds=whole(10, 600)),
            probes=closed(startup=_probe(), readiness=_probe(), liveness=_probe()),
            service=_service(),
            publicPaths=several(PATH, least=1),
            ingress=_ingress(),
            gateway=_gateway(),
            networkPolicy=closed(
                enabled=BOOLEAN, **{"from": _AS_KUBERNETES_HAS_THEM, "egress": _AS_KUBERNETES_HAS_THEM}
            ),
            podDisruptionBudget=closed(enabled=BOOLEAN, maxUnavailable=SHARE),
            autoscaling=_autoscaling(),
            metrics=_metrics(),
            externalHosts=_external_hosts(),
            serviceAccount=closed(create=BOOLEAN, name=OPTIONAL_NAME, annotations=ANNOTATIONS),
            **_pod(),
            extraObjects=several({"type": "object", "required": ["apiVersion", "kind", "metadata"]}),
        ),
        "allOf": [
            if_then(
                where("externalHosts.enabled", _ON),
                where("autoscaling.kind", {"const": "none"}),
                where("metrics.scrape.kind", one_of("none", "ScrapeConfig")),
                # Servers elsewhere have their keys and certificates from somebody else.
                where("auth", {"properties": {"existingSecret": _NOTHING, "keys": {"maxProperties": 0}}}),
                where("tls.existingSecret", _NOTHING),
            ),
            {
                **if_then(where("tls.enabled", _ON), _tls_goes_with()),
                "else": where("tls.existingSecret", _NOTHING),
            },
        ],
    }


def _tls_goes_with() -> Schema:
    """Pods need a certificate, servers elsewhere have one for a name; a mesh encrypts by itself."""
    certificate = {
        **if_then(where("externalHosts.enabled", _ON), where("tls.serverName", NOT_EMPTY)),
        "else": where("tls.existingSecret", NOT_EMPTY),
    }
    return {"allOf": [certificate, where("gateway.sessionHash", one_of("none", "envoyGateway"))]}


def _image() -> Schema:
    return closed(
        repository=matching("^[a-z0-9]([a-z0-9._/:-]*[a-z0-9])?$"),
        tag=matching("^([A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?$"),
        digest=matching("^(sha256:[0-9a-f]{64})?$"),
        pullPolicy=one_of("Always", "IfNotPresent", "Never"),
        pullSecrets=several(NAME),
    )


def _model() -> Schema:
    file = "[A-Za-z0-9][A-Za-z0-9._-]*"
    needed = {"hub": "hub.repository", "claim": "claim.name", "hostPath": "hostPath.path"}
    return {
        **closed(
            source=one_of("demo", "hub", "claim", "hostPath"),
            folder=FOLDER,
            hub=closed(
                repository=matching(f"^({file}/{file})?$"),
                revision=matching("^[A-Za-z0-9._/-]*$"),
                tokenSecret=closed(name=OPTIONAL_NAME, key=SECRET_KEY),
            ),
            claim=closed(name=OPTIONAL_NAME),
            hostPath=closed(path=ABSOLUTE_FOLDER),
        ),
        "allOf": [
            if_then(where("source", {"const": source}), where(path, NOT_EMPTY))
            for source, path in needed.items()
        ],
    }


def _cache() -> Schema:
    return closed(
        sizeLimit=QUANTITY,
        claim=closed(
            enabled=BOOLEAN,
            existing=OPTIONAL_NAME,
            size=QUANTITY,
            storageClassName=OPTIONAL_NAME,
            accessModes=several(one_of("ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"), least=1),
        ),
    )


def _strategy() -> Schema:
    return closed(
        type=one_of("RollingUpdate", "Recreate"),
        rollingUpdate={
            **closed(maxSurge=SHARE_OR_NONE, maxUnavailable=SHARE_OR_NONE),
            # Kubernetes refuses none of both: nothing would ever move.
            **if_then(where("maxSurge", {"enum": [0, "0%"]}), where("maxUnavailable", SHARE)),
        },
    )


def _probe() -> Schema:
    return closed(
        periodSeconds=whole(1, 3600), failureThreshold=whole(1, 10000), timeoutSeconds=whole(1, 600)
    )


def _service() -> Schema:
    return closed(
        type=one_of("ClusterIP", "NodePort", "LoadBalancer"),
        port=PORT,
        nodePort=whole(0, 65535),
        annotations=ANNOTATIONS,
        loadBalancerSourceRanges=several(CIDR),
        sessionAffinity=closed(enabled=BOOLEAN, seconds=whole(0, _DAY)),
    )


def _ingress() -> Schema:
    return {
        **closed(
            enabled=BOOLEAN,
            className=OPTIONAL_NAME,
            annotations=ANNOTATIONS,
            hosts=several(HOST),
            tls=several(closed(secretName=OPTIONAL_NAME, hosts=several(HOST))),
        ),
        **if_then(where("enabled", _ON), where("hosts", {"minItems": 1})),
    }


def _gateway() -> Schema:
    return {
        **closed(
            enabled=BOOLEAN,
            parentRefs=several(ANYTHING_OF_KUBERNETES, most=32),
            hostnames=several(HOST, most=16),
            annotations=ANNOTATIONS,
            requestTimeout=ROUTE_DURATION,
            sessionHash=one_of("none", "envoyGateway", "istio"),
            sessionHeader=matching("^[A-Za-z0-9-]+$", longest=256),
        ),
        "allOf": [
            if_then(where("enabled", _ON), where("parentRefs", {"minItems": 1})),
            if_then(where("enabled", {"const": False}), where("sessionHash", {"const": "none"})),
        ],
    }


def _autoscaling() -> Schema:
    return {
        **closed(
            kind=one_of("none", "HPA", "KEDA"),
            minReplicas=whole(1, 1000),
            maxReplicas=whole(1, 1000),
            waitingRequests=whole(1, 10000),
            missedHits={"type": "number", "minimum": 0.001, "maximum": 1000},
            scaleDownSeconds=whole(0, 7 * _DAY),
            hpa=closed(waitingMetric=METRIC, missedHitsMetric=METRIC),
            keda=closed(
                serverAddress=matching('^(https?://[^\\s"]+)?$'),
                authenticationRef=OPTIONAL_NAME,
                pollingSeconds=whole(5, 3600),
            ),
        ),
        **if_then(where("kind", {"const": "KEDA"}), where("keda.serverAddress", NOT_EMPTY)),
    }


def _metrics() -> Schema:
    return closed(
        scrape=closed(
            kind=one_of("none", "ServiceMonitor", "PodMonitor", "ScrapeConfig"),
            labels=LABELS,
            interval=SCRAPE_DURATION,
            timeout=SCRAPE_DURATION,
            metricRelabelings=_AS_KUBERNETES_HAS_THEM,
            keySecret=closed(name=OPTIONAL_NAME, key=SECRET_KEY),
        ),
        rules=closed(
            enabled=BOOLEAN,
            labels=LABELS,
            alertLabels=ALERT_LABELS,
            disabled=several(matching("^[A-Za-z0-9_]+$")),
        ),
        dashboards=closed(enabled=BOOLEAN, label=LABEL_KEY, labelValue=LABEL_VALUE, folder=ANY_TEXT),
    )


def _external_hosts() -> Schema:
    host = closed(("name", "address"), name=DNS_LABEL, address=ADDRESS, draining=BOOLEAN)
    return {
        **closed(
            enabled=BOOLEAN,
            port=PORT,
            addressType=one_of("IPv4", "IPv6"),
            # An EndpointSlice holds a thousand at most.
            hosts=several(host, most=1000),
        ),
        **if_then(where("enabled", _ON), where("hosts", {"minItems": 1})),
    }


def _pod() -> dict[str, Schema]:
    return {
        "podAnnotations": ANNOTATIONS,
        "podLabels": LABELS,
        "podSecurityContext": ANYTHING_OF_KUBERNETES,
        "securityContext": ANYTHING_OF_KUBERNETES,
        "runtimeClassName": OPTIONAL_NAME,
        "priorityClassName": OPTIONAL_NAME,
        "nodeSelector": SELECTED_LABELS,
        "tolerations": _AS_KUBERNETES_HAS_THEM,
        "affinity": ANYTHING_OF_KUBERNETES,
        "topologySpreadConstraints": _AS_KUBERNETES_HAS_THEM,
        "extraEnv": _AS_KUBERNETES_HAS_THEM,
        "extraVolumes": _AS_KUBERNETES_HAS_THEM,
        "extraVolumeMounts": _AS_KUBERNETES_HAS_THEM,
    }
