"""The copies of rules and dashboards that the chart carries: Helm reads no file outside of a chart."""

RULES = "ops/prometheus/samovar.rules.yml"
DASHBOARDS = "grafana/dashboards/"
FILES = "charts/samovar/files/"


def copies(generated: dict[str, str]) -> dict[str, str]:
    """The chart's copies of generated files: path in the repository → text."""
    dashboards = {
        f"{FILES}dashboards/{path.removeprefix(DASHBOARDS)}": text
        for path, text in generated.items()
        if path.startswith(DASHBOARDS)
    }
    return {f"{FILES}samovar.rules.yml": generated[RULES], **dashboards}
