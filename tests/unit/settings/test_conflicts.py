"""The rules between settings."""

import msgspec
import pytest

from app.settings.conflicts import conflicts, is_loopback
from app.settings.keys import all_keys
from app.settings.layers import built_in
from app.settings.schema import Settings


def changed(**values: object) -> Settings:
    """The built-in settings with some `section__key` of them changed."""
    tree = msgspec.to_builtins(built_in())
    for name, value in values.items():
        section, key = name.split("__")
        tree[section][key] = value
    return msgspec.convert(tree, Settings)


def test_the_built_in_settings_are_at_peace():
    """Nothing set means no conflict; falling back to the defaults always ends well."""
    assert list(conflicts(built_in())) == []


@pytest.mark.parametrize(
    ("values", "keys"),
    [
        ({"server__host": "0.0.0.0"}, ("server.host", "server.allow_unauthenticated")),
        ({"server__tls_key": "key.pem"}, ("server.tls_certificate", "server.tls_key")),
        ({"server__tls_certificate": "cert.pem"}, ("server.tls_certificate", "server.tls_key")),
        ({"server__request_seconds": 5.0}, ("server.keepalive_seconds", "server.request_seconds")),
        ({"model__revision": "main"}, ("model.revision", "model.path")),
        ({"model__adapter_path": "lora"}, ("model.adapter_path", "model.path")),
        (
            {"model__context_length": 100, "scheduler__default_max_tokens": 100},
            ("scheduler.default_max_tokens", "model.context_length"),
        ),
        ({"model__context_length": 32}, ("snapshots.min_prefix_tokens", "model.context_length")),
    ],
)
def test_a_broken_rule_names_the_keys(values, keys):
    """Each rule is broken at its edge, alone, and its keys exist."""
    [conflict] = conflicts(changed(**values))

    assert keys == conflict.keys
    assert {key.dotted for key in all_keys()}.issuperset(keys)


@pytest.mark.parametrize(
    "values",
    [
        {"server__host": "0.0.0.0", "server__allow_unauthenticated": True},
        {"server__host": "0.0.0.0", "auth__keys_file": "keys.toml"},
        {"server__host": "0.0.0.0", "auth__key": "0123456789abcdef"},
        {"server__tls_certificate": "cert.pem", "server__tls_key": "key.pem"},
        {"server__request_seconds": 5.001},
        {"model__revision": "main", "model__adapter_path": "lora", "model__path": "owner/name"},
        {"model__context_length": 100, "scheduler__default_max_tokens": 99},
        {"model__context_length": 33},
        {"scheduler__default_max_tokens": 10**9},
    ],
)
def test_a_kept_rule_is_silent(values):
    """Just inside the edge of every rule there is no conflict."""
    assert list(conflicts(changed(**values))) == []


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost", "LOCALHOST", "localhost."])
def test_loopback_is_this_machine_alone(host):
    """Loopback addresses and the name localhost need no permission."""
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    [
        "0.0.0.0",
        "::",
        "192.168.1.4",
        "fe80::1",
        "example.org",
        "localhost.example.org",
        "127.0.0.1.example.org",
    ],
)
def test_any_other_host_is_public(host):
    """What might be reached from elsewhere counts as public, names that only look local included."""
    assert not is_loopback(host)
