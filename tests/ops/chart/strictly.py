"""Checks an object against the strict schema of its kind: Kubernetes' own, or a custom resource's."""

import kubernetes_validate

from tests.ops.chart.custom_schemas import custom_schemas
from tests.ops.chart.helm import Object


def faults_of(item: Object, kubernetes: str) -> list[str]:
    """What is wrong with an object in a version of Kubernetes, such as 1.37; an unknown kind is wrong too."""
    custom = custom_schemas().get((item["apiVersion"], item["kind"]))
    name = f"{item['kind']} {item['metadata']['name']}"
    if custom is not None:
        return [
            f"{name}: {error.json_path}: {error.message}"
            for error in sorted(custom.iter_errors(item), key=lambda error: error.json_path)
        ]
    try:
        kubernetes_validate.validate(item, kubernetes, strict=True)
    except (kubernetes_validate.ValidationError, kubernetes_validate.SchemaNotFoundError) as error:
        return [f"{name}: {error}"]
    return []
