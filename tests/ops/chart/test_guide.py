"""docs/deploy/kubernetes.md shows values that the chart takes, and queries that find something."""

import re

import yaml

from app.settings.keys import all_keys
from app.telemetry.catalogue import CATALOGUE
from tests.ops.chart.helm import CHART, NEWEST, OLDEST, ROOT, objects, render
from tests.ops.chart.strictly import faults_of

TEXT = (ROOT / "docs" / "deploy" / "kubernetes.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```yaml\n(.*?)```", TEXT, flags=re.DOTALL)
VALUES = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))


def test_the_files_of_values_can_be_used(values_file):
    """Each file of values in the guide makes valid objects; the adapter's is another chart's."""
    shown = [block for block in BLOCKS if "prometheus-adapter" not in block]

    assert len(shown) == 2
    for block in shown:
        made = objects(render(values_file(block)))
        assert [fault for item in made for fault in faults_of(item, NEWEST)] == []


def test_every_value_it_names_exists():
    """What the guide calls a value of the chart is one."""
    named = re.findall(rf"`((?:{'|'.join(VALUES)})(?:\.\w+)+)(?:[:=]|`)", TEXT)
    # Of the server's own, some are in a section that has the name of one of the chart's.
    settings = {name for key in all_keys() for name in (key.dotted, f"settings.{key.dotted}")}

    assert len(named) > 10
    for path in set(named) - settings:
        holder = VALUES
        for key in path.split("."):
            assert key in holder, path
            holder = holder[key]


def test_it_says_the_oldest_kubernetes():
    """The version in the guide is the chart's."""
    assert f"Kubernetes {OLDEST} or newer" in TEXT


def test_the_adapter_serves_what_the_autoscaler_asks_for():
    """The two names of the adapter's rules are the defaults of the chart, of series that the server has."""
    (block,) = (block for block in BLOCKS if "prometheus-adapter" in block)
    rules = yaml.safe_load(block)["rules"]["custom"]
    series = {one.name for one in CATALOGUE}

    assert {rule["name"]["as"] for rule in rules} == set(VALUES["autoscaling"]["hpa"].values())
    assert {rule["seriesQuery"].partition("{")[0] for rule in rules} <= series
