"""Laying layers over one another: who decides, what stops the start, and what is said about it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import ConfigurationError
from app.settings.resolution import resolve
from app.settings.sources import Given, Layer, read_defaults, read_environment

DEFAULTS = read_defaults()


def layer(name: str, **values: object) -> Layer:
    """A layer that says `section__key` is so."""
    dotted = {key.replace("__", "."): value for key, value in values.items()}
    return {key: Given(value, spelling=key, layer=name) for key, value in dotted.items()}


def faults(*layers: Layer) -> list[str]:
    """The lines with which the start stops."""
    with pytest.raises(ConfigurationError) as caught:
        resolve([*layers, DEFAULTS])
    return str(caught.value).splitlines()


def test_the_strongest_layer_that_speaks_decides():
    """Key by key, the first layer that says something is taken, and its name is remembered."""
    loaded = resolve(
        [
            layer("flag --port", server__port="1"),
            layer("env", server__port="2", snapshots__ttl="1h"),
            layer("/etc/samovar.toml", server__port=3, snapshots__ttl="2m", model__alias="x"),
            DEFAULTS,
        ]
    )

    settings, provenance = loaded.settings, loaded.provenance
    assert (settings.server.port, settings.snapshots.ttl_seconds, settings.model.alias) == (1, 3600.0, "x")
    assert provenance["server.port"] == "flag --port"
    assert provenance["snapshots.ttl"] == "env"
    assert provenance["model.alias"] == "/etc/samovar.toml"
    assert provenance["server.host"] == "default"
    assert loaded.warnings == ()


@given(st.lists(st.none() | st.integers(min_value=1, max_value=65535), min_size=1, max_size=5))
def test_silence_never_decides(ports):
    """For any layers, the value is the first one said, and the default where none is."""
    said = [(f"layer {rank}", port) for rank, port in enumerate(ports) if port is not None]
    layers = [
        layer(f"layer {rank}", server__port=port) if port is not None else {}
        for rank, port in enumerate(ports)
    ]

    loaded = resolve([*layers, DEFAULTS])

    expected = said[0] if said else ("default", 8080)
    assert (loaded.provenance["server.port"], loaded.settings.server.port) == expected


def test_every_fault_is_listed_in_one_message():
    """A refused value, an unknown key and a conflict, of whatever layer, come together, a line each."""
    lines = faults(
        layer("flag --port", server__port="abc"),
        read_environment({"SAMOVAR_SNAPSHOT__TTL": "1h", "SAMOVAR_SERVER__HOST": "lan"}),
        layer("/a.toml", snapshots__max_entries=0, snapshots__supersede="yes"),
    )

    assert [line.partition(": ")[0] for line in lines] == [
        'server.port = "abc" (flag --port)',
        "snapshot.ttl (env SAMOVAR_SNAPSHOT__TTL)",
        "snapshots.max_entries = 0 (/a.toml)",
        'snapshots.supersede = "yes" (/a.toml)',
        "server.host = lan (env SAMOVAR_SERVER__HOST) with server.allow_unauthenticated = false (default)",
    ]
    assert [line.partition(": ")[2].partition("; ")[0] for line in lines] == [
        "must be a whole number from 0 to 65535",
        "there is no such setting",
        "must be a whole number not below 1",
        "must be true or false",
        "whoever reaches this address could use the server",
    ]
    assert [line.partition("; ")[2] for line in lines] == [
        "",
        "did you mean SAMOVAR_SNAPSHOTS__TTL?",
        "to keep no snapshots write snapshots.enabled = false",
        "",
        (
            "listen on 127.0.0.1, or have API keys (auth.keys_file, auth.key), or, if that is meant,"
            " set server.allow_unauthenticated = true"
        ),
    ]


def test_a_hidden_fault_is_a_fault():
    """A weaker layer's mistake is listed although a stronger layer decides."""
    assert faults(layer("env", server__port="1"), layer("/a.toml", server__port="x")) == [
        'server.port = "x" (/a.toml): must be a whole number from 0 to 65535'
    ]


def test_a_refused_value_is_complained_of_once():
    """The value that stands in for a refused one starts no second complaint about the same key."""
    [line] = faults(layer("flag", server__keepalive_seconds="soon"), layer("env", server__request_seconds=3))

    assert line.startswith('server.keepalive_seconds = "soon" (flag): must be a duration')


@pytest.mark.parametrize(
    ("dotted", "said"),
    [
        ("snapshots__ttl_seconds", "did you mean snapshots.ttl?"),
        ("snapshots__max_entry", "did you mean snapshots.max_entries?"),
        ("snapshot__ttl", "did you mean snapshots.ttl?"),
        ("port", "did you mean server.port?"),
        ("scheduler__ttl", "did you mean snapshots.ttl?"),
        ("server__xyz", "`samovar config show` lists all there are"),
        ("scheduler", "its settings are max_running, max_waiting, prefill_step_tokens"),
    ],
)
def test_an_unknown_key_gets_a_useful_answer(dotted, said):
    """A near miss, a key without or with the wrong section, and a section in a key's place are told apart."""
    [line] = faults(layer("/a.toml", **{dotted: 1}))

    assert line.startswith(f"{dotted.replace('__', '.')} (/a.toml): ")
    assert said in line


def test_a_long_value_is_cut():
    """A message stays readable whatever somebody wrote."""
    [line] = faults(layer("/a.toml", server__port="9" * 10_000))

    assert len(line) < 200


def test_without_strict_the_next_layer_is_taken_and_said():
    """A value that cannot be used is passed over for that key alone, and a warning says what is used."""
    loaded = resolve(
        [
            layer("flag", strict="false", server__port="abc", snapshots__ttl="0"),
            layer("/a.toml", server__port=3, model__alias="x", servr__port=4),
            DEFAULTS,
        ]
    )

    settings, provenance = loaded.settings, loaded.provenance
    assert (settings.server.port, settings.snapshots.ttl_seconds, settings.model.alias) == (3, 7200.0, "x")
    assert (provenance["server.port"], provenance["snapshots.ttl"]) == ("/a.toml", "default")
    port, ttl, unknown = loaded.warnings
    assert port.endswith("must be a whole number from 0 to 65535; in use: server.port = 3 (/a.toml)")
    assert ttl.endswith("in use: snapshots.ttl = 2h (default)")
    assert unknown.endswith("did you mean server.port?; it is ignored")


def test_without_strict_a_public_host_is_not_opened():
    """An open address falls back to loopback; a "no" to strangers is not what is dropped."""
    loaded = resolve(
        [
            layer("flag", strict=False, server__allow_unauthenticated=False),
            layer("/a.toml", server__host="0.0.0.0", server__allow_unauthenticated=True),
            DEFAULTS,
        ]
    )

    assert (loaded.settings.server.host, loaded.settings.server.allow_unauthenticated) == ("127.0.0.1", False)
    [warning] = loaded.warnings
    assert "in use: server.host = 127.0.0.1 (default)" in warning


def test_without_strict_every_conflict_ends():
    """Conflicting values give way layer by layer, to the built-in ones at last."""
    loaded = resolve(
        [
            layer("flag", strict=False, server__request_seconds=1, model__context_length=10),
            layer("env", server__keepalive_seconds=4, server__request_seconds=2),
            layer("/a.toml", server__keepalive_seconds=1.5, scheduler__default_max_tokens=50),
            DEFAULTS,
        ]
    )

    server = loaded.settings.server
    assert (server.keepalive_seconds, server.request_seconds) == (5.0, 3600.0)
    assert loaded.settings.model.context_length == "auto"
    assert loaded.settings.scheduler.default_max_tokens == "auto"


def test_a_broken_strict_is_strict():
    """Whether to be lenient is not guessed from a value that cannot be read."""
    [line] = faults(layer("env SAMOVAR_STRICT", strict="no"))

    assert line == 'strict = "no" (env SAMOVAR_STRICT): must be true or false'
