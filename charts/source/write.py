"""Writes the chart's generated files, its schema and its README: `python -m charts.source.write`.

The copies of rules and dashboards are written along with these, by `python -m grafana.source.write`.
"""

import json
from pathlib import Path

import yaml

from charts.source.comments import comments_by_key
from charts.source.descriptions import described
from charts.source.readme import readme
from charts.source.schema import values_schema

CHART = Path(__file__).parents[1] / "samovar"


def oldest_kubernetes(constraint: str) -> str:
    """The version of a constraint such as `>=1.30.0-0`, as people say it: 1.30."""
    return constraint.removeprefix(">=").rpartition(".")[0]


def generated() -> dict[str, str]:
    """Every generated file: path in the chart → text."""
    values_text = (CHART / "values.yaml").read_text(encoding="utf-8")
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    schema = values_schema()
    with_comments = described(schema, comments_by_key(values_text))
    return {
        "values.schema.json": json.dumps(with_comments, indent=2, ensure_ascii=False) + "\n",
        "README.md": readme(values_text, schema, oldest_kubernetes(chart["kubeVersion"])),
    }


def main() -> None:
    """Write them."""
    for path, text in generated().items():
        (CHART / path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
