"""One layer at a time: what is read as it was written, and what is not read at all."""

import subprocess
import sys
from pathlib import Path

import pytest

from app.errors import ConfigurationError
from app.settings.sources import Layer, read_defaults, read_environment, read_file

ROOT = Path(__file__).parents[3]


def values(layer: Layer) -> dict[str, object]:
    """Dotted key → raw value."""
    return {dotted: given.value for dotted, given in layer.items()}


@pytest.fixture
def toml(tmp_path):
    """Writes a file and gives its path."""

    def write(text, name="samovar.toml"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def test_a_file_is_read_with_its_types(toml):
    """TOML's own types reach the schema, keys are dotted, and each value knows its file."""
    path = toml(
        'strict = false\n[server]\nport = 9000\n[snapshots]\nttl = "1h"\n[telemetry]\nsample_ratio = 0.5\n'
    )

    layer = read_file(path, required=True)

    assert values(layer) == {
        "strict": False,
        "server.port": 9000,
        "snapshots.ttl": "1h",
        "telemetry.sample_ratio": 0.5,
    }
    assert {given.layer for given in layer.values()} == {str(path)}


def test_a_section_without_keys_says_nothing(toml):
    """A table whose keys are all commented out is as good as absent."""
    assert values(read_file(toml("[server]\n# port = 1\n"), required=True)) == {}


def test_what_is_not_a_setting_is_read_as_well(toml):
    """Unknown tables, keys and shapes reach whoever judges them, in the spelling of the file."""
    path = toml(
        'prt = 1\nserver__port = 2\n[server]\nPort = 3\n[server.deep.er]\nx = 4\n[[model]]\npath = "a"\n'
    )

    assert values(read_file(path, required=True)) == {
        "prt": 1,
        "server__port": 2,
        "server.Port": 3,
        "server.deep.er.x": 4,
        "model": [{"path": "a"}],
    }


@pytest.mark.parametrize(
    "text",
    ["@format {env[PATH]}", "@jinja {{ 1 + 1 }}", "@int 3", "@none", "@read_file /etc/hosts", "@merge a=1"],
)
def test_text_is_never_a_program(toml, text):
    """What the reading library would evaluate stays the text it is, in a file and in the environment."""
    path = toml(f"[model]\nalias = '{text}'\n")

    assert values(read_file(path, required=True)) == {"model.alias": text}
    assert values(read_environment({"SAMOVAR_MODEL__ALIAS": text})) == {"model.alias": text}


def test_no_file_but_the_named_one_is_read(toml, tmp_path):
    """A `.local.` twin, an include, a `.env` and a hook script beside a file are neither read nor run."""
    toml("[server]\nport = 1\n", "samovar.local.toml")
    toml("[server]\nport = 2\n", "other.toml")
    toml("SAMOVAR_SERVER__PORT=3\n", ".env")
    toml(
        f"open({str(tmp_path / 'ran')!r}, 'w')\ndef post(settings): return {{'server': 4}}\n",
        "dynaconf_hooks.py",
    )
    path = toml("dynaconf_include = ['other.toml']\n[server]\nhost = '::1'\n")

    layer = read_file(path, required=True)

    assert values(layer) == {"dynaconf_include": ["other.toml"], "server.host": "::1"}
    assert not (tmp_path / "ran").exists()


def test_variables_of_the_reading_library_change_nothing(toml, tmp_path):
    """`DYNACONF_…` and `…_FOR_DYNACONF`, set for some other program, have no say here."""
    path = toml("[model]\nalias = '@format {env[HOME]}'\nrevision = 'a__b'\n")
    other = toml("[server]\nport = 7\n", "other.toml")
    toml("SAMOVAR_SERVER__PORT=3\n", ".env")
    script = (
        "import os, pathlib\n"
        "from app.settings.sources import read_environment, read_file\n"
        f"print({{k: g.value for k, g in read_file(pathlib.Path({str(path)!r}), required=True).items()}})\n"
        "print({k: g.value for k, g in read_environment(os.environ).items()})\n"
    )
    environ = {
        "PYTHONPATH": str(ROOT),
        "SAMOVAR_SERVER__HOST": "@format {env[HOME]}",
        "DYNACONF_SERVER__PORT": "7",
        "AUTO_CAST_FOR_DYNACONF": "true",
        "CORE_LOADERS_FOR_DYNACONF": '["TOML"]',
        "DOTENV_PATH_FOR_DYNACONF": str(tmp_path / ".env"),
        "ENVIRONMENTS_FOR_DYNACONF": "true",
        "LOAD_DOTENV_FOR_DYNACONF": "true",
        "MERGE_ENABLED_FOR_DYNACONF": "true",
        "NESTED_SEPARATOR_FOR_DYNACONF": "o",
        "DOTTED_LOOKUP_FOR_DYNACONF": "true",
        "PRELOAD_FOR_DYNACONF": f'["{other}"]',
        "SETTINGS_FILE_FOR_DYNACONF": str(other),
    }

    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.stdout.splitlines() == [
        "{'model.alias': '@format {env[HOME]}', 'model.revision': 'a__b'}",
        "{'server.host': '@format {env[HOME]}'}",
    ], done.stderr


def test_the_environment_is_text():
    """A variable's value is its text: a commit that looks like a number stays what it is."""
    environ = {
        "SAMOVAR_MODEL__REVISION": "12e4",
        "SAMOVAR_SERVER__PORT": "0x10",
        "SAMOVAR_STRICT": "",
        "PORT": "1",
    }

    layer = read_environment(environ)

    assert values(layer) == {"model.revision": "12e4", "server.port": "0x10", "strict": ""}
    assert layer["server.port"].layer == "env SAMOVAR_SERVER__PORT"


@pytest.mark.parametrize(
    ("name", "dotted"),
    [
        ("SAMOVAR_SERVER_PORT", "server_port"),
        ("SAMOVAR_SERVER", "server"),
        ("SAMOVAR_GET__ITEMS", "get.items"),
        ("SAMOVAR_STORE", "store"),
        ("SAMOVAR_SERVER__PORT__X", "server.port.x"),
        ("SAMOVAR_server__Port", "server.port"),
        ("SAMOVAR_", ""),
        ("SAMOVAR___", "."),
        ("SAMOVAR_A.B", "a.b"),
    ],
)
def test_no_variable_gets_lost(name, dotted):
    """Every `SAMOVAR_…` variable is in the layer, however odd, in the spelling it has."""
    [(key, given)] = read_environment({name: "x"}).items()

    assert (dotted, "x", name) == (key, given.value, given.spelling)


LINKS = {
    "SAMOVAR_SERVICE_HOST": "10.0.0.1",
    "SAMOVAR_SERVICE_PORT": "8080",
    "SAMOVAR_SERVICE_PORT_HTTP": "8080",
    "SAMOVAR_PORT": "tcp://10.0.0.1:8080",
    "SAMOVAR_PORT_8080_TCP": "tcp://10.0.0.1:8080",
    "SAMOVAR_PORT_8080_TCP_ADDR": "10.0.0.1",
    "SAMOVAR_PORT_8080_TCP_PORT": "8080",
    "SAMOVAR_PORT_8080_TCP_PROTO": "tcp",
    "SAMOVAR_PROXY_SERVICE_HOST": "10.0.0.2",
    "SAMOVAR_PROXY_PORT_4000_UDP": "udp://10.0.0.2:4000",
}


def test_a_service_called_samovar_is_no_setting():
    """In a Kubernetes pod, the variables made for Services are passed over; real ones are not."""
    pod = LINKS | {
        "KUBERNETES_SERVICE_HOST": "10.0.0.9",
        "SAMOVAR_SERVER__PORT": "80",
        "SAMOVAR_SERVER_PRT": "1",
    }

    assert values(read_environment(pod)) == {"server.port": "80", "server_prt": "1"}


def test_outside_a_pod_such_names_are_read():
    """Elsewhere they cannot come from a cluster, so they are somebody's mistake and must be seen."""
    assert len(read_environment(LINKS)) == len(LINKS)


def test_an_absent_file_is_an_empty_layer_unless_required(tmp_path):
    """Only a file that somebody named has to be there."""
    path = tmp_path / "samovar.toml"

    assert read_file(path, required=False) == {}
    with pytest.raises(ConfigurationError, match=f"{path}: there is no such settings file"):
        read_file(path, required=True)


@pytest.mark.parametrize(
    ("text", "said"),
    [("port = = 1", r"line 1, column 8"), ("a = 1\na = 2\n", "line 2"), (b"a = '\xe9'", "UTF-8")],
)
def test_a_broken_file_is_named(toml, text, said):
    """A file that is not TOML raises with its path and the place."""
    path = toml(text)

    with pytest.raises(ConfigurationError, match=said) as caught:
        read_file(path, required=False)
    assert str(caught.value).startswith(f"{path}: ")


def test_a_file_must_be_called_toml(toml):
    """Another ending is refused before anything is guessed from it."""
    with pytest.raises(ConfigurationError, match=r"must end in \.toml"):
        read_file(toml("[server]\nport = 1\n", "samovar.conf"), required=True)


def test_a_file_that_cannot_be_opened_is_named(tmp_path):
    """A folder in a file's place raises with its path and the system's reason."""
    folder = tmp_path / "samovar.toml"
    folder.mkdir()

    with pytest.raises(
        ConfigurationError, match=f"{folder}: the settings file cannot be read: Is a directory"
    ):
        read_file(folder, required=False)


def test_a_path_with_separators_is_one_path(toml, tmp_path):
    """Commas, semicolons and brackets in a path are part of its name."""
    (tmp_path / "a,b;[c]").mkdir()

    assert values(read_file(toml("strict = true\n", "a,b;[c]/x,y.toml"), required=True)) == {"strict": True}


def test_the_defaults_are_a_layer():
    """The built-in values are read like any file and called default."""
    assert {given.layer for given in read_defaults().values()} == {"default"}
