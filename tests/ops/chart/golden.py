"""What the chart makes, written down to be read in reviews: `python -m tests.ops.chart.golden` updates it.

Rules and dashboards stand elsewhere already, so only their names are here.
"""

from pathlib import Path

import yaml

from tests.ops.chart.helm import CI_VALUES, Object, objects, render

FOLDER = Path(__file__).parent / "golden"


def golden_path(values: str) -> Path:
    """Where what a file of `ci/` makes is written down."""
    return FOLDER / values.replace("-values", "")


def golden_text(manifests: str) -> str:
    """Manifests in an order and a form that depend on their content alone."""
    made = sorted(
        map(_abridged, objects(manifests)), key=lambda item: (item["kind"], item["metadata"]["name"])
    )
    return yaml.safe_dump_all(made, sort_keys=True, width=120)


def _abridged(item: Object) -> Object:
    match item["kind"]:
        case "PrometheusRule":
            groups = [
                {
                    "name": group["name"],
                    "rules": [rule.get("alert", rule.get("record")) for rule in group["rules"]],
                }
                for group in item["spec"]["groups"]
            ]
            return {**item, "spec": {"groups": groups}}
        case "ConfigMap":
            return {**item, "data": dict.fromkeys(item["data"], "…")}
        case _:
            return item


def main() -> None:
    """Write all of it anew."""
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.glob("*.yaml"):
        path.unlink()
    for values in CI_VALUES:
        golden_path(values).write_text(golden_text(render(values)), encoding="utf-8")


if __name__ == "__main__":
    main()
