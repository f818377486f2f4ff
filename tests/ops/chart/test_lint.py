"""Helm's own linter takes the chart with every file of values, and a broken chart it does not take."""

import sys

import pytest

from tests.ops.chart.conftest import Break
from tests.ops.chart.helm import CI_VALUES, HelmError, lint


@pytest.mark.parametrize("values", CI_VALUES)
def test_the_linter_finds_nothing(values: str):
    """`helm lint --strict` passes with each file of ci/."""
    assert "0 chart(s) failed" in lint(values)


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("Chart.yaml", "version: 0.1.0", "version: one"),
        ("templates/service.yaml", "{{- end }}\n  {{- if .Values.service.sessionAffinity", "  {{- if "),
        ("templates/service.yaml", "kind: Service", "kind: Service\n  kind: Service"),
        ("values.yaml", "replicaCount: 1", "replicaCount: one"),
    ],
)
def test_the_linter_refuses_a_broken_chart(broken: Break, file: str, old: str, new: str):
    """A version that is none, a template without its end, a key twice and a bad default each fail."""
    with pytest.raises(HelmError):
        lint(chart=broken(file, old, new))


def test_a_missing_helm_is_a_failure(monkeypatch: pytest.MonkeyPatch, tmp_path):
    """Without helm beside the interpreter nothing is passed over; the error says how to get it."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))

    with pytest.raises(FileNotFoundError, match="make tools"):
        lint()
