"""The `process_*` series of platforms that have no /proc, run beside prometheus_client's own."""

import pytest
from prometheus_client import CollectorRegistry, ProcessCollector

from app.telemetry import process
from app.telemetry.process import PortableProcess, register_process


def described(registry: CollectorRegistry) -> dict[str, tuple[str, str]]:
    return {family.name: (family.type, family.documentation) for family in registry.collect()}


def test_the_series_are_those_of_prometheus_client():
    """Same names, types and help: dashboards do not ask which platform they look at."""
    standard, ours = CollectorRegistry(), CollectorRegistry()
    ProcessCollector(registry=standard)
    ours.register(PortableProcess())
    assert described(ours) == described(standard)


@pytest.mark.parametrize(
    ("name", "tolerance"),
    [
        ("process_virtual_memory_bytes", 0.05),
        ("process_resident_memory_bytes", 0.05),
        ("process_cpu_seconds_total", 0.05),
        ("process_start_time_seconds", 1e-9),
        ("process_open_fds", 0.1),
        ("process_max_fds", 0),
    ],
)
def test_the_values_are_those_of_prometheus_client(name, tolerance):
    """Both read the same process; only what changes between two readings may differ."""
    registry, other = CollectorRegistry(), CollectorRegistry()
    ProcessCollector(registry=registry)
    other.register(PortableProcess())
    expected = registry.get_sample_value(name)
    assert expected
    assert other.get_sample_value(name) == pytest.approx(expected, rel=tolerance, abs=1.0)


def test_ours_is_registered_only_where_theirs_is_silent(monkeypatch):
    """Never both, and never neither."""
    here = CollectorRegistry()
    register_process(here)
    assert here.get_sample_value("process_open_fds")
    theirs = type(next(iter(here._collector_to_names)))
    assert theirs is ProcessCollector

    monkeypatch.setattr(
        process, "ProcessCollector", lambda registry: ProcessCollector(proc="/nowhere", registry=registry)
    )
    elsewhere = CollectorRegistry()
    register_process(elsewhere)
    assert elsewhere.get_sample_value("process_open_fds")
    assert type(next(iter(elsewhere._collector_to_names))) is PortableProcess
