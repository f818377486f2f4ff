"""The property lists that are shipped and rendered: read by three parsers, checked key by key."""

import plistlib
import re
import shlex
from pathlib import Path
from xml.parsers.expat import ExpatError

import pytest

from app.cli import _parser
from app.commands.arguments import load_for_service
from app.runtime import ENGINE_END_SECONDS
from app.server import FAREWELL_SECONDS
from app.settings.keys import all_keys
from tests.ops.launchd.room import (
    HOME,
    PROGRAM,
    SHIPPED,
    faults,
    parse_with_gnustep,
    round_trip,
)

FILES = sorted(SHIPPED.glob("*/*.plist"))
RENDERED = {
    "daemon/org.samovar.server.plist": (),
    "agent/org.samovar.server.plist": ("--agent",),
    "newsyslog.d/org.samovar.server.conf": ("--rule",),
}


def test_every_shipped_file_is_what_the_command_renders(samovar):
    """Nothing under ops/launchd is typed by hand, and nothing else is there."""
    assert {str(path.relative_to(SHIPPED)) for path in SHIPPED.rglob("*.*") if path.is_file()} == set(
        RENDERED
    )
    for name, flags in RENDERED.items():
        done = samovar("render", *flags, "--program", PROGRAM)
        assert (done.err, done.out) == ("", (SHIPPED / name).read_text()), name


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.parent.name)
def test_three_parsers_read_the_same(file, tmp_path):
    """Python's, GNUstep's and libplist's, each written by other people."""
    keys = plistlib.loads(file.read_bytes())

    assert parse_with_gnustep(file)
    assert plistlib.loads(round_trip(file, tmp_path)) == keys


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.parent.name)
@pytest.mark.parametrize(
    "damage",
    [
        ("<key>Label</key>", "<key>Label<key>"),
        ("<true/>", "<true>"),
        ("<array>", "<list>"),
    ],
    ids=["open key", "open truth", "no type"],
)
def test_each_parser_refuses_a_damaged_file(file, damage, tmp_path):
    """Checks that check nothing would pass a file that launchd does not."""
    broken = tmp_path / "broken.plist"
    text = file.read_text()
    assert damage[0] in text
    broken.write_text(text.replace(*damage))

    with pytest.raises((ExpatError, ValueError)):
        plistlib.loads(broken.read_bytes())
    assert not parse_with_gnustep(broken)
    assert round_trip(broken, tmp_path) == b""


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.parent.name)
def test_every_key_is_one_of_launchds(file):
    """Type by type, with absolute paths and the label as the file's name."""
    assert faults(plistlib.loads(file.read_bytes()), file_name=file.name) == []


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"ThrottleIntervall": 60}, "unknown key ThrottleIntervall"),
        ({"ThrottleInterval": "60"}, "type of ThrottleInterval"),
        ({"ThrottleInterval": True}, "type of ThrottleInterval"),
        ({"Label": "org.samovar.other"}, "Label is not the file's name"),
        ({"StandardOutPath": "samovar.log"}, "relative StandardOutPath"),
        ({"ProgramArguments": ["samovar", "serve"]}, "ProgramArguments"),
        ({"ProgramArguments": ["/bin/samovar", 1]}, "ProgramArguments"),
        ({"ProcessType": "interactive"}, "ProcessType"),
        ({"SoftResourceLimits": {"NumberOfFile": 1}}, "SoftResourceLimits"),
    ],
)
def test_the_key_table_refuses_what_launchd_would(change, fault):
    """Each rule of the table has a file that breaks it."""
    keys = plistlib.loads(FILES[0].read_bytes()) | change

    assert faults(keys, file_name=FILES[0].name) == [fault]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.parent.name)
def test_the_arguments_are_a_command_line_of_ours(file):
    """The real parser takes them, the settings load, and launchd waits longer than the server's own end."""
    keys = plistlib.loads(file.read_bytes())
    arguments = _parser().parse_args(keys["ProgramArguments"][1:])
    settings = load_for_service(
        arguments, folder=Path(keys["WorkingDirectory"]), system_file=Path("/nonexistent/samovar.toml")
    ).settings

    assert arguments.run.__module__ == "app.commands.serve"
    assert keys["ExitTimeOut"] > settings.server.drain_seconds + FAREWELL_SECONDS + ENGINE_END_SECONDS
    assert keys["ThrottleInterval"] >= 60
    assert keys["KeepAlive"] == {"SuccessfulExit": False}
    assert keys["Umask"] == 0o077


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.parent.name)
def test_the_variables_are_settings_and_no_secrets(file):
    """Everybody can read a property list: it names folders, and every SAMOVAR_ variable is a setting."""
    variables = plistlib.loads(file.read_bytes())["EnvironmentVariables"]
    settings = {key.environment for key in all_keys()}

    assert {name for name in variables if name.startswith("SAMOVAR_")} <= settings
    assert not any(re.search("KEY|TOKEN|SECRET|PASSWORD", name) for name in variables)
    assert all(value.startswith("/") for value in variables.values())


def test_a_longer_drain_makes_launchd_wait_longer(samovar, tmp_path):
    """The time comes from the settings that the job will find: its flags and its file, not this shell's."""
    (tmp_path / "mine.toml").write_text("[server]\ndrain_seconds = '1h'\n")
    (tmp_path / "samovar.toml").write_text("[server]\ndrain_seconds = '2h'\n")
    flags = ("--config", "mine.toml", "--program", PROGRAM)

    by_file = plistlib.loads(samovar("render", *flags).out.encode())
    by_flag = plistlib.loads(samovar("render", *flags, "--drain-seconds=10m").out.encode())

    assert by_file["ExitTimeOut"] == 3600 + 120
    assert by_flag["ExitTimeOut"] == 600 + 120
    assert by_file["ProgramArguments"] == [PROGRAM, "serve", f"--config={tmp_path / 'mine.toml'}"]
    assert by_flag["ProgramArguments"][2:] == [f"--config={tmp_path / 'mine.toml'}", "--drain-seconds=10m"]


def test_every_flag_reaches_the_property_list(samovar, tmp_path):
    """Label, accounts, folders, throttle and limits are the user's; folders of models are made absolute."""
    (tmp_path / "model").mkdir()
    flags = (
        "--label=com.example.llm --user=llm --group=staff --log-folder=/var/log/llm --working-folder=/srv/llm"
        " --throttle-seconds=120 --open-files=1024 --model=model --no-snapshot-warmup --alias=-x"
        " --telemetry-log-file=/var/log/llm/own.log --state-folder=/srv/state"
    )
    rendered = samovar("render", *shlex.split(flags), "--program=/x/samovar")
    keys = plistlib.loads(rendered.out.encode())

    assert keys["Label"] == "com.example.llm"
    assert (keys["UserName"], keys["GroupName"]) == ("llm", "staff")
    assert keys["StandardErrorPath"] == keys["StandardOutPath"] == "/var/log/llm/samovar.log"
    assert (keys["WorkingDirectory"], keys["ThrottleInterval"]) == ("/srv/llm", 120)
    assert keys["SoftResourceLimits"] == keys["HardResourceLimits"] == {"NumberOfFiles": 1024}
    assert set(keys["ProgramArguments"]) == {
        *("/x/samovar", "serve", f"--model={tmp_path / 'model'}", "--no-snapshot-warmup", "--alias=-x"),
        *("--telemetry-log-file=/var/log/llm/own.log", "--state-folder=/srv/state"),
    }
    assert keys["EnvironmentVariables"].keys() == {"PATH", "HF_HOME"}
    assert faults(keys, file_name="com.example.llm.plist") == []


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--label=samovar", "label 'samovar': must be a name in reverse DNS"),
        ("--label=../org.x", "must be a name in reverse DNS"),
        ("--log-folder=logs", "log_folder logs: must be an absolute path"),
        ("--log-folder='/var/my logs'", "must hold no space"),
        ("--program=bin/samovar", "program bin/samovar: must be an absolute path"),
        ("--throttle-seconds=10", "throttle_seconds 10: must not be below 60"),
        ("--open-files=0", "open_files 0: must not be below 1"),
        ("--user='a b'", "user 'a b': a daemon needs the name of an account"),
        ("--agent --user=me", "user 'me': an agent runs as whoever logs in"),
        ("--config=absent.toml", "there is no such settings file"),
        ("--snapshot-ttl=0", "snapshots.ttl"),
    ],
)
def test_what_launchd_could_not_use_is_refused(samovar, flags, said):
    """One sentence and exit code 1, before anything is written."""
    done = samovar("render", *shlex.split(flags))

    assert (done.code, done.out) == (1, "")
    assert said in done.err


def test_the_rule_rotates_the_log_of_the_job():
    """newsyslog.conf(5): file, owner, mode, count, size, when, flags; N, because nothing is signalled."""
    [rule] = [
        line
        for line in (SHIPPED / "newsyslog.d" / "org.samovar.server.conf").read_text().splitlines()
        if not line.startswith("#")
    ]
    daemon = plistlib.loads((SHIPPED / "daemon" / "org.samovar.server.plist").read_bytes())
    path, owner, mode, count, size, when, flags = rule.split()

    assert (
        path == daemon["StandardErrorPath"] == daemon["EnvironmentVariables"]["SAMOVAR_TELEMETRY__LOG_FILE"]
    )
    assert owner == f"{daemon['UserName']}:{daemon['GroupName']}"
    assert (mode, int(count) > 0, int(size) > 0, when, flags) == ("640", True, True, "*", "N")


def test_an_agents_home_is_its_users(samovar):
    """Every path of an agent lies in the home of whoever renders it."""
    keys = plistlib.loads(samovar("render", "--agent").out.encode())

    for key in ("WorkingDirectory", "StandardOutPath", "StandardErrorPath"):
        assert keys[key].startswith(f"{HOME}/Library/")
