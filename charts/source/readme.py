"""README.md of the chart: an introduction and a table of all values. Knows no template."""

import json
from typing import Any

import yaml

from charts.source.comments import comments_by_key
from charts.source.shapes import Schema

_INTRODUCTION = """\
# The chart `samovar`

Runs Samovar on Linux nodes, on the CPU or on NVIDIA GPUs, or stands for servers outside the cluster, such as
a fleet of Macs. It needs Kubernetes {kubernetes} or newer, and Helm 3.19 or newer.

    helm install samovar charts/samovar
    helm install samovar charts/samovar --values my-values.yaml

[Deploying on Kubernetes](../../docs/deploy/kubernetes.md) tells how to install, upgrade, roll back and scale.
`ci/` holds a file of values for each way to use the chart; all of them are tested.

## Values

What is not among these, or has a value that makes no sense, is refused (`values.schema.json`). What is "as
Kubernetes has it" is handed on, and the cluster says what is allowed. `settings` takes every setting of the
server; this table has those with a default of the chart's own.

| value | default | what it is |
|---|---|---|
"""


def readme(values_text: str, schema: Schema, kubernetes: str) -> str:
    """The whole page; `kubernetes` is the oldest version that is supported, such as 1.30.

    Raises:
        ValueError: a value has no comment.
    """
    comments = comments_by_key(values_text)
    values = yaml.safe_load(values_text)
    rows = []
    for key, default in leaves(values, schema):
        if key not in comments:
            raise ValueError(f"values.yaml: {key} has no comment")
        rows.append(f"| `{key}` | `{_shown(default)}` | {_cell(comments[key])} |\n")
    return _INTRODUCTION.format(kubernetes=kubernetes) + "".join(rows)


def leaves(values: dict[str, Any], schema: Schema, prefix: str = "") -> list[tuple[str, Any]]:
    """Each value that is set as one, with its default: what the schema closes into no keys of its own."""
    found: list[tuple[str, Any]] = []
    for key, value in values.items():
        dotted = f"{prefix}{key}"
        shape = schema["properties"][key]
        if "properties" in shape:
            found.extend(leaves(value, shape, f"{dotted}."))
        else:
            found.append((dotted, value))
    return found


def _shown(default: object) -> str:
    return json.dumps(default).replace("|", "\\|")


def _cell(comment: str) -> str:
    return comment.replace("|", "\\|")
