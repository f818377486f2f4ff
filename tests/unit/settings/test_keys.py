"""The keys: names on every side, values read by the schema's rules, help that misses nothing."""

import re
from collections import Counter

import msgspec
import pytest

from app.settings.keys import all_keys, sections
from app.settings.layers import built_in
from app.settings.schema import Settings
from app.settings.sources import read_defaults

KEYS = {key.dotted: key for key in all_keys()}


@pytest.mark.parametrize(
    ("dotted", "flag", "environment"),
    [
        ("strict", "--strict", "SAMOVAR_STRICT"),
        ("server.port", "--port", "SAMOVAR_SERVER__PORT"),
        ("model.path", "--model", "SAMOVAR_MODEL__PATH"),
        ("model.alias", "--alias", "SAMOVAR_MODEL__ALIAS"),
        ("scheduler.max_running", "--scheduler-max-running", "SAMOVAR_SCHEDULER__MAX_RUNNING"),
        ("snapshots.capacity_bytes", "--snapshot-capacity-bytes", "SAMOVAR_SNAPSHOTS__CAPACITY_BYTES"),
        ("snapshots.ttl", "--snapshot-ttl", "SAMOVAR_SNAPSHOTS__TTL"),
        ("telemetry.metrics", "--telemetry-metrics", "SAMOVAR_TELEMETRY__METRICS"),
    ],
)
def test_one_key_has_one_name_on_each_side(dotted, flag, environment):
    """A flag is the key in the singular of its section; server and model keys drop the section."""
    assert (flag, environment) == (KEYS[dotted].flag, KEYS[dotted].environment)


def test_no_two_keys_share_a_name():
    """No flag, no negated flag and no variable stands for two settings, nor for one of the command's own."""
    flags = [flag for key in all_keys() for flag in {key.flag, key.off_flag if key.is_switch else key.flag}]
    names = Counter(
        [*flags, *(key.environment for key in all_keys()), "--config", "--help", "--json", "--version"]
    )

    assert [1] * len(names) == list(names.values())


def test_the_keys_are_the_schema():
    """Every field of the schema is a key, under the name a user writes, and nothing else is."""
    tree = msgspec.to_builtins(built_in())
    leaves = {
        f"{name}.{inner}" if inner else name
        for name, value in tree.items()
        for inner in (value if isinstance(value, dict) else [""])
    }

    assert leaves == KEYS.keys()


def test_every_key_has_a_default_of_its_own():
    """The built-in layer says something about every key, and about nothing else."""
    assert KEYS.keys() == read_defaults().keys()


def test_every_key_explains_itself():
    """Help is a sentence and names no unit twice; what is allowed is never blank."""
    for key in all_keys():
        assert re.fullmatch(r"[A-Za-z].+\.", key.description), key.dotted
        assert key.allowed, key.dotted
    assert all(section.description for section in sections())


def test_every_default_can_be_written_as_it_is_shown():
    """What `config show` prints can be pasted into a variable or behind a flag."""
    for key in all_keys():
        value = key.value_in(built_in())
        assert value == key.read("" if key.show(value) == '""' else key.show(value)), key.dotted


@pytest.mark.parametrize(
    ("dotted", "written", "expected"),
    [
        ("server.port", "9000", 9000),
        ("server.port", 0, 0),
        ("server.drain_seconds", 0, 0.0),
        ("server.max_request_bytes", "1MiB", 2**20),
        ("model.alias", "12e4", "12e4"),
        ("model.template_kwargs", "{}", {}),
        ("model.template_kwargs", '{"enable_thinking": false}', {"enable_thinking": False}),
        ("model.context_length", "auto", "auto"),
        ("model.context_length", "4096", 4096),
        ("snapshots.capacity_bytes", "auto", "auto"),
        ("snapshots.capacity_bytes", "8GiB", 8 * 2**30),
        ("snapshots.max_arrays", "off", "off"),
        ("snapshots.max_arrays", "5", 5),
        ("snapshots.ttl", "off", "off"),
        ("snapshots.ttl", "90m", 5400.0),
        ("snapshots.completions", "never", "never"),
        ("telemetry.sample_ratio", "0.25", 0.25),
        ("telemetry.sample_ratio", 1, 1.0),
        ("telemetry.otlp_endpoint", "", ""),
        ("telemetry.otlp_endpoint", "https://collector:4318", "https://collector:4318"),
        *[("telemetry.metrics", written, True) for written in ("true", "True", "1", 1, True)],
        *[("telemetry.metrics", written, False) for written in ("false", "FALSE", "0", 0, False)],
    ],
)
def test_allowed_values_are_read(dotted, written, expected):
    """A value is read by its key's type, from TOML's types and from text alike."""
    value = KEYS[dotted].read(written)

    assert (expected, type(expected)) == (value, type(value))


@pytest.mark.parametrize(
    ("dotted", "written", "said"),
    [
        ("server.port", "70000", "a whole number from 0 to 65535"),
        ("server.port", True, "a whole number from 0 to 65535"),
        ("server.port", "8080.5", "a whole number"),
        ("server.host", "", "text that is not empty"),
        ("server.keepalive_seconds", 0, "a duration of more than 0"),
        ("server.request_seconds", "366d", "at most 365d"),
        ("server.drain_seconds", -1, "a duration of at most 365d"),
        ("model.path", 3, "text"),
        *[
            ("model.template_kwargs", written, "a JSON object as text")
            for written in ("", "{", "[1]", "enable_thinking=false", 1, "null")
        ],
        ("model.context_length", 0, "auto or a whole number not below 1"),
        ("model.context_length", "Auto", "auto or a whole number"),
        ("scheduler.max_running", 0, "a whole number not below 1"),
        ("snapshots.capacity_bytes", 0, "to keep no snapshots write snapshots.enabled = false"),
        ("snapshots.capacity_bytes", "-1GiB", "to keep no snapshots write snapshots.enabled = false"),
        ("snapshots.capacity_bytes", "off", "auto or a size from 1B to 1024TiB"),
        ("snapshots.capacity_bytes", "2000TiB", "auto or a size from 1B to 1024TiB"),
        ("snapshots.max_entries", "0", "to keep no snapshots write snapshots.enabled = false"),
        ("snapshots.max_arrays", 0, "auto, off or a whole number not below 1"),
        ("snapshots.ttl", 0, "to let snapshots never expire write off"),
        ("snapshots.ttl", "0s", "off or a duration of more than 0"),
        ("snapshots.ttl", "never", "off or a duration"),
        ("snapshots.completions", "sometimes", "always, auto or never"),
        ("telemetry.sample_ratio", "1.1", "a number from 0 to 1"),
        ("telemetry.sample_ratio", "nan", "a number from 0 to 1"),
        ("telemetry.otlp_endpoint", "collector:4318", "http:// or https://"),
        *[
            ("telemetry.metrics", written, "true or false")
            for written in ("yes", "on", "", "2", "null", 2, 1.0)
        ],
    ],
)
def test_everything_else_is_refused_with_what_is_allowed(dotted, written, said):
    """A value that is not allowed raises, and the message says what would have been."""
    with pytest.raises(ValueError, match=re.escape(said)):
        KEYS[dotted].read(written)


def test_a_type_without_words_for_it_stops_the_build():
    """The schema cannot grow a type that help and messages do not know."""
    from app.settings.keys import _describe

    with pytest.raises(TypeError, match="no words"):
        _describe(msgspec.inspect.type_info(bytes), None)


def test_settings_have_no_default_but_the_file():
    """The schema itself has no defaults, so none can be in two places."""
    with pytest.raises(TypeError, match="Missing required argument"):
        Settings()  # type: ignore[call-arg]
