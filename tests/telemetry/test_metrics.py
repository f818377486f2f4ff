"""The whole exposition: complete, bounded, and in the format that was asked for."""

import itertools
import subprocess

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from app.events import RequestEnded, TraceRef
from app.telemetry.catalogue import CATALOGUE
from app.telemetry.label_values import OTHER
from app.telemetry.metrics import Model, declare, render
from app.telemetry.series import Kind, Series
from app.vocabulary import Outcome
from tests.telemetry.generations import BEGAN, generation
from tests.telemetry.metrics_room import (
    BUILD,
    CONFIG_DIGEST,
    DECLINE_REASONS,
    MODEL,
    ROUTES,
    MetricsRoom,
    parse,
    parse_openmetrics,
)

SERIES_BUDGET = 600
"""All samples of a scrape with two routes, process_* included; a new label has to fit in here."""

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

TOLD_AT_START = {
    ("samovar_requests_total", "route"): (*ROUTES, OTHER),
    ("samovar_capture_declines_total", "reason"): (*DECLINE_REASONS, OTHER),
    ("samovar_build_info", "version"): (BUILD.version,),
    ("samovar_build_info", "python"): (BUILD.python,),
    ("samovar_build_info", "mlx"): (BUILD.mlx,),
    ("samovar_build_info", "mlx_lm"): (BUILD.mlx_lm,),
    ("samovar_config_info", "digest"): (CONFIG_DIGEST,),
    ("samovar_model_info", "model"): (MODEL.name,),
    ("samovar_model_info", "family"): (MODEL.family,),
    ("samovar_model_info", "cache_kinds"): (MODEL.cache_kinds,),
}

NOT_ZERO = {
    "samovar_build_info",
    "samovar_config_info",
    "samovar_model_info",
    "samovar_snapshot_capacity_bytes",
    "samovar_snapshot_max_entries",
    "samovar_snapshot_ttl_seconds",
}
"""Gauges that state something from the start."""


@pytest.fixture
def room():
    return MetricsRoom()


def label_sets(series: Series) -> list[frozenset[tuple[str, str]]]:
    """Every combination of the label values of a series."""
    values = [TOLD_AT_START.get((series.name, label.name), label.values) for label in series.labels]
    return [
        frozenset(zip(series.label_names, combination, strict=True))
        for combination in itertools.product(*values)
    ]


@pytest.mark.parametrize("series", CATALOGUE, ids=lambda series: series.name)
def test_every_series_is_there_at_zero_before_anything_happened(room, series):
    """The first scrape has each series of the catalogue with each of its label values, at zero."""
    samples = room.scrape()
    names = [series.name]
    if series.kind is Kind.HISTOGRAM:
        names = [f"{series.name}_count", f"{series.name}_sum"]
    for name, labels in itertools.product(names, label_sets(series)):
        assert (name, labels) in samples
        assert name in NOT_ZERO or samples[name, labels] == 0


def test_nothing_but_the_catalogue_and_the_runtime_is_exposed(room):
    """A family is ours and in the catalogue with that type and help, or it is python_info or process_*."""
    catalogue = {series.name: (series.kind.value, series.help) for series in CATALOGUE}
    seen = set()
    for family in parse(room.text()):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        if name.startswith("samovar_"):
            assert catalogue[name] == (family.type, family.documentation)
            seen.add(name)
        else:
            assert name == "python_info" or name.startswith("process_")
    assert seen == set(catalogue)


def test_no_label_value_is_outside_its_closed_set(room):
    """Whatever happens, a sample's labels are those of the catalogue; strange values count as other."""
    room.hear(
        RequestEnded("/v1/../etc/passwd", Outcome.INVALID, 404, 0.1),
        RequestEnded(ROUTES[0], Outcome.COMPLETED, 200, 0.1),
    )
    allowed = {series.name: set(label_sets(series)) for series in CATALOGUE}
    for family in parse(room.text()):
        for sample in family.samples:
            if not sample.name.startswith("samovar_"):
                continue
            name = sample.name if sample.name in allowed else sample.name.rpartition("_")[0]
            labels = frozenset((key, value) for key, value in sample.labels.items() if key != "le")
            assert labels in allowed[name]
    assert room.value("samovar_requests_total", route=OTHER, outcome="invalid") == 1
    assert room.value("samovar_requests_total", route=ROUTES[0], outcome="completed") == 1


def test_the_number_of_series_stays_in_its_budget(room):
    """A scrape is small enough for any Prometheus."""
    assert len(room.scrape()) <= SERIES_BUDGET


def test_no_series_states_when_it_was_created(room):
    """`_created` samples would double the series; neither format has them."""
    for accept in ("", OPENMETRICS):
        assert "_created" not in room.text(accept)


def test_promtool_finds_nothing_to_say(room):
    """The exposition follows the rules that Prometheus itself checks: names, units, help."""
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=room.text(), text=True, capture_output=True, check=False
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


def test_the_process_and_the_interpreter_are_among_the_series(room):
    """What restarts and leaks show in, comes from prometheus_client where it can read it."""
    samples = room.scrape()
    assert samples["process_start_time_seconds", frozenset()] > 0
    assert any(name == "python_info" for name, _ in samples)


def test_a_scraper_gets_the_format_it_asks_for(room):
    """OpenMetrics if the Accept header names it, text 0.0.4 in every other case."""
    assert render(room.registry, OPENMETRICS)[1].startswith("application/openmetrics-text")
    assert render(room.registry, "")[1] == CONTENT_TYPE_PLAIN_0_0_4
    assert render(room.registry, "text/html, */*;q=0.1")[1] == CONTENT_TYPE_PLAIN_0_0_4
    assert room.text(OPENMETRICS).endswith("# EOF\n")


def test_time_to_first_token_points_at_a_trace(room):
    """In OpenMetrics, the bucket of a sampled request carries its trace id; an unsampled one leaves none."""
    room.hear(
        generation(first_token=BEGAN + 2.2, cause=TraceRef(0xABC, 0x1, sampled=True)),
        generation(first_token=BEGAN + 3.0, cause=TraceRef(0xDEF, 0x2, sampled=False)),
        generation(first_token=BEGAN + 7.0),
    )
    exemplars = {
        sample.labels["le"]: sample.exemplar.labels
        for family in parse_openmetrics(room.text(OPENMETRICS))
        for sample in family.samples
        if sample.exemplar
    }
    assert exemplars == {"2.5": {"trace_id": f"{0xABC:032x}"}}


def test_openmetrics_states_the_unit_of_each_series(room):
    """Names end in their unit, and the unit is said."""
    units = {family.name: family.unit for family in parse_openmetrics(room.text(OPENMETRICS))}
    for series in CATALOGUE:
        assert units[series.name.removesuffix("_total")] == series.unit
        assert series.name.removesuffix("_total").endswith(series.unit)


def test_a_new_model_takes_the_place_of_the_old(room):
    """There is one model a process, so there is one series for it."""
    room.instruments.set_model(Model("other", "qwen3", "ArraysCache,KVCache"))
    infos = {labels for name, labels in room.scrape() if name == "samovar_model_info"}
    assert [dict(labels)["model"] for labels in infos] == ["other"]


def test_one_registry_takes_one_set_of_series():
    """A second declaration against the same registry is an error, not two values under one name."""
    registry = CollectorRegistry()
    declare(registry, build=BUILD, config_digest=CONFIG_DIGEST, routes=ROUTES, decline_reasons=())
    with pytest.raises(ValueError, match="Duplicated"):
        declare(registry, build=BUILD, config_digest=CONFIG_DIGEST, routes=ROUTES, decline_reasons=())
