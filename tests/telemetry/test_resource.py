"""What spans say of the process they come from."""

import os
import platform

import pytest

from app.telemetry.resource import build_resource, service_name_of


def built(*, name: str = "samovar", name_is_default: bool = True):
    return build_resource(
        service_name=name, name_is_default=name_is_default, version="1.2.3", instance_id="instance"
    )


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    """No variable of OpenTelemetry that this machine may have."""
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)


def test_a_resource_names_service_instance_host_and_process():
    """Everything a fleet of equal servers is told apart by, by the conventions' names."""
    said = built().attributes
    expected = {
        "service.name": "samovar",
        "service.version": "1.2.3",
        "service.instance.id": "instance",
        "host.name": platform.node(),
        "process.pid": os.getpid(),
        "process.runtime.name": "cpython",
        "process.runtime.version": platform.python_version(),
        "telemetry.sdk.language": "python",
    }
    assert {key: said[key] for key in expected} == expected
    assert said["os.type"] in {"linux", "darwin"}
    assert said["host.arch"] in {"amd64", "arm64"}


def test_the_environment_adds_and_goes_first(monkeypatch):
    """The standard variables override what we found out, but not our own version."""
    monkeypatch.setenv(
        "OTEL_RESOURCE_ATTRIBUTES",
        "service.instance.id=rack-7,deployment.environment.name=home,service.version=9,host.name=mac",
    )
    said = built().attributes
    assert said["service.instance.id"] == "rack-7"
    assert said["deployment.environment.name"] == "home"
    assert said["host.name"] == "mac"
    assert said["service.version"] == "1.2.3"


@pytest.mark.parametrize("variable", ["OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"])
def test_a_name_that_was_set_for_samovar_goes_before_the_environments(monkeypatch, variable):
    """The environment names the service where our own setting is at its default."""
    monkeypatch.setenv(variable, "tea" if variable == "OTEL_SERVICE_NAME" else "service.name=tea")
    assert service_name_of(built()) == "tea"
    assert service_name_of(built(name="coffee", name_is_default=False)) == "coffee"
