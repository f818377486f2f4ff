"""The settings object: frozen, typed and fit to cross a process boundary."""

import pickle

import msgspec
import pytest

from app.settings.layers import built_in
from app.settings.schema import Settings


def test_settings_cannot_be_changed():
    """Neither the settings nor a section of them takes an assignment."""
    settings = built_in()

    with pytest.raises(AttributeError):
        settings.strict = False  # type: ignore[misc]
    with pytest.raises(AttributeError):
        settings.server.port = 1  # type: ignore[misc]


def test_settings_cross_a_process_boundary():
    """Pickling gives back equal settings, because the server may run in another process."""
    settings = built_in()

    assert settings == pickle.loads(pickle.dumps(settings))


def test_settings_refuse_what_they_do_not_know():
    """Built from plain data, an unknown key is an error at every level."""
    tree = msgspec.to_builtins(built_in())

    with pytest.raises(msgspec.ValidationError, match="unknown field `prt`"):
        msgspec.convert(tree | {"server": tree["server"] | {"prt": 1}}, Settings)
    with pytest.raises(msgspec.ValidationError, match="unknown field `servr`"):
        msgspec.convert(tree | {"servr": {}}, Settings)


def test_the_built_in_settings_are_what_a_newcomer_gets():
    """Without any setting: loopback, the demo model, snapshots on, nothing sent anywhere."""
    settings = built_in()

    assert (settings.server.host, settings.server.port) == ("127.0.0.1", 8080)
    assert settings.model.path == ""
    assert settings.snapshots.enabled
    assert settings.snapshots.capacity_bytes == "auto"
    assert settings.snapshots.ttl_seconds == 7200.0
    assert settings.telemetry.otlp_endpoint == ""
