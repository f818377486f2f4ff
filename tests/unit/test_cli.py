"""The command: what it prints, where, and the code it ends with."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from app import __version__
from app.cli import _VERBS, _parser, main
from app.settings.keys import all_keys
from app.settings.layers import built_in

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch, tmp_path):
    """An empty working folder, and no setting in the environment."""
    for name in list(os.environ):
        if name.startswith("SAMOVAR_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)


def refused(*argv: str) -> int | str | None:
    """The code of a command line that argparse ends."""
    with pytest.raises(SystemExit) as ended:
        main(argv)
    return ended.value.code


def test_version_is_the_packages(capsys):
    """--version prints the name and the version, and succeeds."""
    assert refused("--version") == 0
    assert capsys.readouterr().out == f"samovar {__version__}\n"


@pytest.mark.parametrize("argv", [[], ["config"]])
def test_without_a_command_help_is_printed(capsys, argv):
    """Half a command line is answered with what can follow, on stderr, as a usage error."""
    assert main(argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "commands:" in err


def test_help_names_the_commands_and_an_example(capsys):
    """The first help a newcomer reads says what this is, what can be done, and how that looks."""
    assert refused("--help") == 0
    out = capsys.readouterr().out
    for said in ("Serves a language model", "serve", "config", "samovar serve --model"):
        assert said in out


@pytest.mark.parametrize("command", [["serve"], ["config", "show"], ["config", "check"]])
def test_help_explains_every_setting(capsys, command):
    """Each setting is a flag of each command, with the schema's sentence and its default; but no secret."""
    assert refused(*command, "--help") == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "--auth-keys-file" in out
    assert "--auth-key " not in out
    for key in all_keys():
        if key.secret:
            continue
        assert re.search(rf"{re.escape(key.flag)}[ ,]", out), key.flag
        assert f"{key.description} Default: " in out
        if key.is_switch:
            assert f"{key.flag}, {key.off_flag}" in out
    assert "Default: 16MiB." in out


def test_check_says_ok(capsys):
    """Settings that can be used are one word and a success."""
    assert main(["config", "check"]) == 0
    assert capsys.readouterr() == ("ok\n", "")


def test_check_lists_every_fault(capsys, monkeypatch, tmp_path):
    """Settings that cannot be used are a line a fault on stderr, and a failure."""
    monkeypatch.setenv("SAMOVAR_SNAPSHOT__TTL", "1h")
    (tmp_path / "samovar.toml").write_text("[server]\nport = 70000\n")

    assert main(["config", "check", "--snapshot-capacity-bytes", "0"]) == 1

    out, err = capsys.readouterr()
    assert out == ""
    assert [line.partition(")")[0] for line in err.splitlines()] == [
        'samovar: snapshots.capacity_bytes = "0" (flag --snapshot-capacity-bytes',
        "samovar: snapshot.ttl (env SAMOVAR_SNAPSHOT__TTL",
        f"samovar: server.port = 70000 ({tmp_path / 'samovar.toml'}",
    ]


def test_show_prints_values_and_layers(capsys, monkeypatch, tmp_path):
    """Every setting is a line: its name, its value as it could be written, and the layer that decided."""
    monkeypatch.setenv("SAMOVAR_SERVER__DRAIN_SECONDS", "90")
    (tmp_path / "mine.toml").write_text("[model]\nalias = 'qwen'\n")
    argv = [
        "config",
        "show",
        "--config",
        "mine.toml",
        "--snapshot-capacity-bytes=8GiB",
        "--no-telemetry-metrics",
    ]

    assert main(argv) == 0

    heading, *lines = capsys.readouterr().out.splitlines()
    rows = [re.split(r"\s{2,}", line) for line in lines]
    assert heading.split() == ["setting", "value", "layer"]
    assert [row[0] for row in rows] == [key.dotted for key in all_keys()]
    for row in [
        ["snapshots.capacity_bytes", "8GiB", "flag --snapshot-capacity-bytes"],
        ["telemetry.metrics", "false", "flag --no-telemetry-metrics"],
        ["server.drain_seconds", "1m30s", "env SAMOVAR_SERVER__DRAIN_SECONDS"],
        ["model.alias", "qwen", str(tmp_path / "mine.toml")],
        ["model.path", '""', "default"],
        ["snapshots.ttl", "2h", "default"],
    ]:
        assert row in rows


def test_show_json_is_for_programs(capsys):
    """--json gives every value in base units, with its layer."""
    assert main(["config", "show", "--json", "--snapshot-ttl", "1h30m", "--strict"]) == 0

    shown = json.loads(capsys.readouterr().out)
    assert shown.keys() == {key.dotted for key in all_keys()}
    assert shown["snapshots.ttl"] == {"value": 5400.0, "layer": "flag --snapshot-ttl"}
    assert shown["strict"] == {"value": True, "layer": "flag --strict"}
    assert shown["server.max_request_bytes"] == {"value": 2**24, "layer": "default"}


def test_a_secret_is_hidden_wherever_settings_are_shown(capsys, monkeypatch, tmp_path):
    """Neither a good nor a bad API key is repeated, whatever is asked for; only that there is one."""
    secret = "xyzzy-0123456789-plugh"
    monkeypatch.setenv("SAMOVAR_AUTH__KEY", secret)
    for argv in (["show"], ["show", "--json"], ["check"]):
        assert main(["config", *argv]) == 0
        out = capsys.readouterr().out
        assert secret not in out
        assert argv == ["check"] or "(hidden)" in out
    (tmp_path / "samovar.toml").write_text(f'[auth]\nkey = "{secret} with spaces"\n')
    for strict in ("--strict", "--no-strict"):
        assert main(["config", "check", strict]) == 1
        err = capsys.readouterr().err
        assert "auth.key = (hidden)" in err
        assert "xyzzy" not in err


def test_a_job_of_launchd_has_the_file_of_keys_and_no_key(capsys, monkeypatch, tmp_path):
    """A property list can be read by everybody: it names the file as it is found anywhere, and no secret."""
    monkeypatch.setenv("SAMOVAR_AUTH__KEY", "xyzzy-0123456789-plugh")
    (tmp_path / "keys.toml").write_text("")
    assert main(["launchd", "render", "--agent", "--auth-keys-file", "keys.toml"]) == 0
    out = capsys.readouterr().out
    assert f"--auth-keys-file={tmp_path / 'keys.toml'}" in out
    assert "xyzzy" not in out


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SAMOVAR_AUTH__KEY", "short"),
        ("SAMOVAR_AUTH__KEYFILE", "keys.toml"),
        ("SAMOVAR_SERVER__TLS_KEY", "key.pem"),
    ],
)
def test_what_keeps_people_out_is_never_passed_over(capsys, monkeypatch, variable, value):
    """With strict off, a mistake in keys or TLS stops the start all the same, rather than open the server."""
    monkeypatch.setenv(variable, value)
    assert main(["config", "check", "--no-strict"]) == 1
    assert variable in capsys.readouterr().err


def test_every_flag_sets_its_key(capsys):
    """Each flag reaches its own key, even where it says what the default says anyway."""
    defaults = built_in()
    for key in (key for key in all_keys() if not key.secret):
        value = key.value_in(defaults)
        given = [key.flag] if key.is_switch else [key.flag, "" if value == "" else key.show(value)]

        assert main(["config", "show", "--json", *given]) == 0

        shown = json.loads(capsys.readouterr().out)
        assert shown[key.dotted] == {"value": True if key.is_switch else value, "layer": f"flag {key.flag}"}


def test_the_last_flag_counts(capsys):
    """A flag given twice is the last one, so that a wrapper script's flags can be overridden."""
    assert main(["config", "show", "--json", "--port", "1", "--strict", "--port", "2", "--no-strict"]) == 0

    shown = json.loads(capsys.readouterr().out)
    assert (shown["server.port"]["value"], shown["strict"]["value"]) == (2, False)


def test_warnings_are_printed_and_do_not_fail(capsys):
    """With strict off, what is passed over is said on stderr, and the command succeeds."""
    assert main(["config", "check", "--no-strict", "--port", "x"]) == 0

    out, err = capsys.readouterr()
    assert out == "ok\n"
    assert err.startswith('samovar: warning: server.port = "x" (flag --port): must be a whole number')
    assert err.endswith("in use: server.port = 8080 (default)\n")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["serve", "--prot", "1"], "there is no --prot; did you mean --port?"),
        (["serve", "--prot=1"], "there is no --prot=1; did you mean --port?"),
        (["serve", "--snapshots-ttl", "1h"], "did you mean --snapshot-ttl?"),
        (["serve", "--snapshot"], "there is no --snapshot"),
        (["config", "check", "extra"], "there is no extra here"),
        (["config", "show", "--port"], "expected one argument"),
        (["sreve"], "invalid choice: 'sreve'"),
    ],
)
def test_a_command_line_that_makes_no_sense_is_usage(capsys, argv, said):
    """An unknown or unfinished word ends with code 2 and the nearest thing there is; nothing is guessed."""
    assert refused(*argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err


def test_serve_refuses_bad_settings_before_anything_starts(capsys):
    """A public address without permission is one clear sentence and code 1, with no traceback."""
    assert main(["serve", "--host", "0.0.0.0"]) == 1

    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(
        "samovar: server.host = 0.0.0.0 (flag --host) with server.allow_unauthenticated = false"
    )
    assert len(err.splitlines()) == 1


def run(code: str, *argv: str) -> "subprocess.CompletedProcess[str]":
    """Python in a process of its own, with this tree's package."""
    return subprocess.run(
        [sys.executable, "-c", code, *argv],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("argv", [["--help"], ["serve", "--help"], ["config", "check"]])
def test_only_serving_loads_what_serving_needs(argv):
    """Help and the settings commands answer without importing MLX, Litestar, transformers or Granian."""
    code = (
        "import sys\n"
        "from app.cli import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "heavy = {'mlx', 'mlx_lm', 'litestar', 'transformers', 'granian', 'opentelemetry', 'numpy'}\n"
        "print(sorted(heavy.intersection(sys.modules)), file=sys.stderr)\n"
    )

    done = run(code, *argv)

    assert done.stdout
    assert done.stderr == "[]\n"


@pytest.mark.parametrize("argv", [["serve", "--help"], ["config", "show"]])
def test_a_verb_loads_nothing_of_other_verbs(argv):
    """What a chat, a benchmark or a table needs is not imported for a server's sake."""
    code = (
        "import sys\n"
        "from app.cli import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "others = {'httpx', 'plistlib', 'app.bench', 'app.supervision.launchd'}\n"
        "print(sorted(others.intersection(sys.modules)), file=sys.stderr)\n"
    )

    done = run(code, *argv)

    assert done.stdout
    assert done.stderr == "[]\n"


@pytest.mark.parametrize("verb", _VERBS)
def test_a_verb_says_the_same_whether_it_is_alone_or_beside_others(verb):
    """Its help does not depend on which others were made."""

    def help_of(parser):
        return parser._subparsers._group_actions[0].choices[verb].format_help()

    assert help_of(_parser([verb])) == help_of(_parser())


def test_an_interrupt_before_serving_is_quiet(tmp_path):
    """SIGINT while the settings are being read ends with 130 and not a word."""
    pipe = tmp_path / "pipe.toml"
    os.mkfifo(pipe)
    process = subprocess.Popen(
        [sys.executable, "-m", "app", "serve", "--config", str(pipe)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A shell that runs the tests in the background has SIGINT ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - no threads here
    )

    # Opening waits for the reader, and the reader then waits for a first byte that never comes.
    with pipe.open("wb"):
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)

    assert (process.returncode, out, err) == (130, b"", b"")
