"""Everything that a dashboard asks for is in a scrape of the started server."""

import re

import pytest

from app.telemetry.catalogue import DEVICE_MEMORY
from tests.ops.dashboards.asking import NAMES, dashboard, expressions, filled
from tests.support.process import samovar
from tests.support.promql import Exposition, exposition, faults
from tests.support.tiny import make_tiny_model

OF_PROMETHEUS: Exposition = {"scrape_duration_seconds": {}}
"""What Prometheus adds about a scrape itself, beside `up`."""


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Exposition:
    """What a server exposes once its model is loaded, before anyone has asked it anything."""
    folder = tmp_path_factory.mktemp("server")
    model = make_tiny_model(folder / "model", "llama")
    with samovar("--model", str(model), folder=folder) as server:
        exposed = {**exposition(server.get("/metrics").text), **OF_PROMETHEUS}
    # Not every platform tells every kind of memory: here the declared ones count.
    (kinds,) = DEVICE_MEMORY.labels
    return {**exposed, DEVICE_MEMORY.name: {kinds.name: frozenset(kinds.values)}}


@pytest.mark.parametrize("name", NAMES)
def test_every_series_label_and_value_is_in_a_scrape(name: str, scraped: Exposition):
    """A query for what is not there would be an empty panel that looks like calm."""
    found = {
        (place, fault)
        for place, query in expressions(dashboard(name))
        for fault in faults(filled(query), scraped)
    }

    assert not found


@pytest.mark.parametrize("name", NAMES)
def test_the_variables_are_read_from_a_series_that_exists(name: str, scraped: Exposition):
    """The choice of servers comes from a series that every server has."""
    for variable in dashboard(name)["templating"]["list"]:
        if variable["type"] == "query":
            (series,) = re.findall(r"label_values\((\w+)", variable["query"]["query"])
            assert series in scraped


def test_a_renamed_series_is_noticed(scraped: Exposition):
    """A dashboard that asks for a series under its old name fails here, by name and place."""
    renamed = {
        name.replace("samovar_snapshot_lookups", "samovar_snapshot_searches"): labels
        for name, labels in scraped.items()
    }

    found = {
        (place, fault)
        for place, query in expressions(dashboard("cache-sizing"))
        for fault in faults(filled(query), renamed)
    }

    assert ("Misses by reason", "samovar_snapshot_lookups_total is no series") in found
