"""Where layers lie and in which order they count, with real files."""

from pathlib import Path

import pytest

from app.errors import ConfigurationError
from app.settings.layers import load, load_here, system_file
from app.settings.sources import Given

NOWHERE = Path("/nonexistent/samovar.toml")


@pytest.fixture
def places(tmp_path):
    """Files of every place, each saying its own port; returns the arguments of `load`."""
    named, folder, system = tmp_path / "named.toml", tmp_path / "here", tmp_path / "system.toml"
    folder.mkdir()
    named.write_text("[server]\nport = 3\n")
    (folder / "samovar.toml").write_text("[server]\nport = 4\n")
    system.write_text("[server]\nport = 5\n")
    return {
        "flags": {"server.port": Given("1", spelling="--port", layer="flag --port")},
        "environ": {"SAMOVAR_SERVER__PORT": "2"},
        "config": named,
        "folder": folder,
        "system_file": system,
    }


def test_layers_count_in_the_documented_order(places, tmp_path):
    """From flag to default, each decides once those before it are gone."""
    seen = []
    for gone in [
        {},
        {"flags": {}},
        {"environ": {}},
        {"config": None},
        {"folder": tmp_path},
        {"system_file": NOWHERE},
    ]:
        places |= gone
        loaded = load(**places)
        seen.append((loaded.settings.server.port, loaded.provenance["server.port"]))

    assert seen == [
        (1, "flag --port"),
        (2, "env SAMOVAR_SERVER__PORT"),
        (3, str(tmp_path / "named.toml")),
        (4, str(tmp_path / "here" / "samovar.toml")),
        (5, str(tmp_path / "system.toml")),
        (8080, "default"),
    ]


def test_a_named_file_must_exist(places, tmp_path):
    """A file asked for with --config and not there stops the start."""
    with pytest.raises(ConfigurationError, match="there is no such settings file"):
        load(**places | {"config": tmp_path / "missing.toml"})


def test_a_file_named_and_found_is_read_once(places):
    """Naming the working folder's own file lists its faults once."""
    local = places["folder"] / "samovar.toml"
    local.write_text("[server]\nprt = 4\n")

    with pytest.raises(ConfigurationError) as caught:
        load(**places | {"config": local})
    assert str(caught.value).count("server.prt") == 1


def test_all_unreadable_files_are_named(places):
    """Two broken files are two lines, not two attempts to start."""
    places["config"].write_text("a = = 1")
    places["system_file"].write_text("b = = 1")

    with pytest.raises(ConfigurationError) as caught:
        load(**places)
    assert [line.partition(":")[0] for line in str(caught.value).splitlines()] == [
        str(places["config"]),
        str(places["system_file"]),
    ]


def test_the_process_is_a_set_of_layers(monkeypatch, tmp_path):
    """`load_here` takes this process's environment and working folder."""
    (tmp_path / "samovar.toml").write_text("[server]\nport = 4\ndrain_seconds = 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SAMOVAR_SERVER__PORT", "2")

    loaded = load_here({}, config=None)

    assert (loaded.settings.server.port, loaded.settings.server.drain_seconds) == (2, 1.0)
    assert loaded.provenance["server.drain_seconds"] == str(tmp_path / "samovar.toml")


def test_a_relative_config_is_found_and_named_in_full(monkeypatch, tmp_path):
    """A relative --config means the working folder, and provenance says which file that was."""
    (tmp_path / "mine.toml").write_text("[server]\nport = 6\n")
    monkeypatch.chdir(tmp_path)

    loaded = load_here({}, config=Path("mine.toml"))

    assert loaded.provenance["server.port"] == str(tmp_path / "mine.toml")


@pytest.mark.parametrize(
    ("platform", "path"),
    [
        ("linux", "/etc/samovar/samovar.toml"),
        ("darwin", "/Library/Application Support/Samovar/samovar.toml"),
    ],
)
def test_the_system_file_lies_where_the_system_keeps_such(platform, path):
    """Each platform has its own place."""
    assert str(system_file(platform)) == path
