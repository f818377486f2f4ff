"""With a certificate, whoever reaches the server speaks HTTPS to it."""

from collections.abc import Callable
from pathlib import Path

from tests.ops.chart.helm import objects, objects_of, only, render, rendered
from tests.ops.chart.pod import Mounted, environment_of, mounted, pod_template

Write = Callable[[str], Path]


def test_with_a_certificate_everybody_speaks_https():
    """The server has both files of the Secret; probes, Service, Prometheus and Gateway speak HTTPS to it."""
    made = objects_of("keys-values.yaml")
    environment = environment_of(made)
    (container,) = pod_template(made)["spec"]["containers"]
    (endpoint,) = only(made, "ServiceMonitor")["spec"]["endpoints"]
    policy = only(made, "BackendTLSPolicy")["spec"]
    name, authority = "chat.internal.example.com", "internal-ca"

    assert [mounted(made, environment[f"SAMOVAR_SERVER__TLS_{file}"]) for file in ("CERTIFICATE", "KEY")] == [
        Mounted("samovar-tls", "tls.crt"),
        Mounted("samovar-tls", "tls.key"),
    ]
    for probe in ("startup", "readiness", "liveness"):
        assert container[f"{probe}Probe"]["httpGet"]["scheme"] == "HTTPS"
    assert only(made, "Service")["spec"]["ports"][0]["appProtocol"] == "https"
    assert endpoint["scheme"] == "https"
    assert endpoint["tlsConfig"] == {
        "serverName": name,
        "ca": {"configMap": {"name": authority, "key": "ca.crt"}},
    }
    assert policy["targetRefs"][0]["name"] == only(made, "Service")["metadata"]["name"]
    assert policy["validation"]["hostname"] == name
    assert policy["validation"]["caCertificateRefs"][0]["name"] == authority


def test_without_a_certificate_nobody_does():
    """No scheme but HTTP, and no file of a certificate."""
    for values in ("default-values.yaml", "hub-values.yaml", "gpu-values.yaml", "macs-istio-values.yaml"):
        assert "https" not in rendered(values).lower().replace("https://collector.example.com", "")
        assert "SAMOVAR_SERVER__TLS" not in rendered(values)


def test_the_name_in_the_certificate_is_the_service_s(values_file: Write):
    """Where the values name none, it is the name at which the cluster reaches the Service."""
    made = objects(
        render(
            values_file(
                "{tls: {enabled: true, existingSecret: a}, metrics: {scrape: {kind: PodMonitor}},"
                " gateway: {enabled: true, parentRefs: [{name: g}]}}"
            )
        )
    )
    (endpoint,) = only(made, "PodMonitor")["spec"]["podMetricsEndpoints"]
    validation = only(made, "BackendTLSPolicy")["spec"]["validation"]

    assert endpoint["tlsConfig"] == {"serverName": "rel-samovar.chat.svc"}
    assert validation == {"hostname": "rel-samovar.chat.svc", "wellKnownCACertificates": "System"}


def test_hosts_outside_the_cluster_speak_https_too():
    """Their endpoints, their scrapes and the Gateway's way to them do, by the name of their certificate."""
    made = objects_of("macs-values.yaml")
    scrape = only(made, "ScrapeConfig")["spec"]

    assert only(made, "EndpointSlice")["ports"][0]["appProtocol"] == "https"
    assert (scrape["scheme"], scrape["tlsConfig"]["serverName"]) == ("HTTPS", "macs.example.com")
    assert only(made, "BackendTLSPolicy")["spec"]["validation"]["hostname"] == "macs.example.com"
