"""A change of what the chart makes is seen: it changes a file beside the tests."""

import pytest

from tests.ops.chart.golden import FOLDER, golden_path, golden_text
from tests.ops.chart.helm import CI_VALUES, OLDEST, rendered


@pytest.mark.parametrize("values", CI_VALUES)
def test_the_chart_makes_what_is_written_down(values: str):
    """Each file of ci/ gives what golden/ says; `python -m tests.ops.chart.golden` writes it anew."""
    assert golden_text(rendered(values)) == golden_path(values).read_text(encoding="utf-8")


@pytest.mark.parametrize("values", CI_VALUES)
def test_the_version_of_kubernetes_makes_no_difference(values: str):
    """The chart makes the same for the oldest Kubernetes as for the newest."""
    assert golden_text(rendered(values, OLDEST)) == golden_text(rendered(values))


def test_nothing_is_written_down_that_is_not_made():
    """golden/ has a file for each file of ci/ and no other."""
    assert {path.name for path in FOLDER.iterdir()} == {golden_path(values).name for values in CI_VALUES}


@pytest.mark.parametrize(
    ("old", "new"),
    [("replicas: 1", "replicas: 2"), ("drop:\n", "add:\n"), ('path: "/readyz"', 'path: "/livez"')],
)
def test_any_change_is_seen(old: str, new: str):
    """One word more or less in what the chart makes is another text."""
    manifests = rendered("default-values.yaml")

    assert old in manifests
    assert golden_text(manifests.replace(old, new)) != golden_text(manifests)
