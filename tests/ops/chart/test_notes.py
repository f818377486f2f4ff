"""What a user reads after an install says how to reach the server, and what to mind."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ops.chart.helm import CI_VALUES, notes

Write = Callable[[str], Path]


def _unresolved(text: str) -> list[str]:
    """What a template leaves behind where it has no value."""
    return [trace for trace in ("<no value>", "<nil>", "{{", "%!", "map[") if trace in text]


@pytest.mark.parametrize("values", CI_VALUES)
def test_the_notes_have_no_gaps(values: str):
    """With each file of ci/ every word of the notes is resolved, and they say how to ask the server."""
    text = notes(values)

    assert "/v1/models" in text
    assert _unresolved(text) == []


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ("{}", "port-forward service/rel-samovar 8080:8080"),
        ("service: {type: NodePort}", "{.spec.ports[0].nodePort}"),
        ("service: {type: LoadBalancer, port: 80}", "http://<that address>:80/v1/models"),
        ("ingress: {enabled: true, hosts: [chat.example.com]}", "curl http://chat.example.com/v1/models"),
        (
            "ingress: {enabled: true, hosts: [a.example.com], tls: [{secretName: t}]}",
            "curl https://a.example.com",
        ),
        ("gateway: {enabled: true, parentRefs: [{name: g}]}", "<address of the Gateway>"),
        (
            "gateway: {enabled: true, parentRefs: [{name: g}]}",
            "NOTE: the NetworkPolicy lets only pods of chat in",
        ),
        ("{}", "WARNING: there are no keys: whoever the NetworkPolicy lets in may do everything"),
        ("networkPolicy: {enabled: false}", "WARNING: there are no keys and no NetworkPolicy: every pod"),
        ("auth: {existingSecret: keys}", 'curl --header "Authorization: Bearer $KEY" http://127.0.0.1:8080'),
        ("auth: {existingSecret: keys}", "NOTE: servers that run do not notice a change of the Secret keys"),
        ("tls: {enabled: true, existingSecret: a}", "curl --insecure https://127.0.0.1:8080/v1/models"),
        ("autoscaling: {kind: HPA}", "KEDA can wait longer"),
        ("model: {source: hostPath, hostPath: {path: /srv}}", "restricted Pod Security level refuses"),
    ],
)
def test_the_notes_fit_the_values(values_file: Write, values: str, said: str):
    """Each kind of entrance has its own command, and each risk its own warning."""
    assert said in notes(values_file(values))


@pytest.mark.parametrize("values", ["keys-values.yaml", "gpu-values.yaml"])
def test_with_keys_nobody_is_warned(values: str):
    """Keys from the values or from a Secret: the notes do not say that there are none."""
    assert "there are no keys" not in notes(values)


def test_a_gap_would_be_seen():
    """A value that is missing in a template shows as text that this check knows."""
    assert _unresolved("serves <no value> at {{ .Values.port }}") == ["<no value>", "{{"]
