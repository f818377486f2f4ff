"""Which journal a server has, and what `samovar starts` makes of it."""

import json
import os
import time
from pathlib import Path

import pytest

from app.cli import main
from app.settings.layers import load
from app.settings.sources import Given
from app.starts import start_journal


def settings(tmp_path, **server):
    flags = {f"server.{key}": Given(value, spelling=key, layer="test") for key, value in server.items()}
    return load(flags, config=None, environ={}, folder=tmp_path, system_file=tmp_path / "none.toml").settings


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch, tmp_path):
    """An empty working folder, and no setting in the environment."""
    for name in [name for name in os.environ if name.startswith("SAMOVAR_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def test_each_address_has_its_own_journal(tmp_path):
    """Two servers on one machine do not count each other's starts."""
    asked: list[dict[str, object]] = [
        {"port": 1},
        {"port": 2},
        {"port": 1, "host": "::1"},
        {"port": 1, "host": "localhost"},
    ]
    journals = [start_journal(settings(tmp_path, state_folder=str(tmp_path), **each)) for each in asked]
    names = [journal.file.name for journal in journals if journal]

    assert names == [
        "starts-127.0.0.1-1.json",
        "starts-127.0.0.1-2.json",
        "starts-__1-1.json",
        "starts-localhost-1.json",
    ]


def test_the_rule_is_that_of_the_settings(tmp_path):
    """How many, how long, and where."""
    journal = start_journal(
        settings(tmp_path, port=1, state_folder="~/state", crash_loop_starts=7, crash_loop_seconds="1m")
    )

    assert journal is not None
    assert (journal.rule.starts, journal.rule.window_seconds) == (7, 60.0)
    assert str(journal.file.parent) == str(Path("~/state").expanduser())


def test_by_default_it_is_in_the_users_state_folder(tmp_path, monkeypatch):
    """As the platform has it: on Linux what XDG_STATE_HOME says."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    journal = start_journal(settings(tmp_path))

    assert journal is not None
    assert journal.file.parent.name == "samovar"


@pytest.mark.parametrize("server", [{"port": 0}, {"crash_loop_starts": "off"}])
def test_no_journal_is_kept_where_none_is_asked_for(tmp_path, server):
    """Switched off, or with any free port, where the next start is somebody else."""
    assert start_journal(settings(tmp_path, **server)) is None


FLAGS = ("--port=9", "--state-folder=state", "--crash-loop-starts=2")
JOURNAL = "state/starts-127.0.0.1-9.json"


def write_journal(tmp_path, content):
    (tmp_path / "state").mkdir()
    (tmp_path / JOURNAL).write_text(content)


def test_show_tells_a_crash_loop(tmp_path, capsys):
    """How many of how many, when, and for how long still."""
    now = time.time()
    write_journal(tmp_path, json.dumps({"format": 1, "unix_seconds": [now - 60, now - 30]}))

    assert main(["starts", "show", *FLAGS]) == 0

    first, *starts, last = capsys.readouterr().out.splitlines()
    assert first == f"{tmp_path / JOURNAL}: 2 of 2 starts that make a crash loop"
    assert len(starts) == 2
    assert last.startswith("the model is not loaded for another 17")


def test_show_of_no_journal_is_no_crash(tmp_path, capsys):
    """A server that was always stopped well has no file."""
    assert main(["starts", "show", *FLAGS]) == 0

    assert capsys.readouterr().out == f"{tmp_path / JOURNAL}: 0 of 2 starts that make a crash loop\n"


def test_clear_removes_the_journal(tmp_path, capsys):
    """Twice is as good as once."""
    write_journal(tmp_path, "{}")
    for _ in range(2):
        assert main(["starts", "clear", *FLAGS]) == 0

    assert not (tmp_path / JOURNAL).exists()


def test_a_journal_that_cannot_be_read_is_said(tmp_path, capsys):
    """A person who asks is told what is wrong with the file."""
    write_journal(tmp_path, "{}")

    assert main(["starts", "show", *FLAGS]) == 1

    assert "the journal of starts cannot be read: it is not of format 1" in capsys.readouterr().err


def test_a_journal_that_cannot_be_removed_is_said(tmp_path, capsys):
    """A folder in its place is none of ours to remove."""
    (tmp_path / JOURNAL).mkdir(parents=True)

    assert main(["starts", "clear", *FLAGS]) == 1

    assert "the journal of starts cannot be removed" in capsys.readouterr().err


def test_without_a_journal_there_is_nothing_to_look_after(capsys):
    """The message names both settings that decide it."""
    assert main(["starts", "show", "--port=0"]) == 1

    err = capsys.readouterr().err
    assert "server.crash_loop_starts" in err
    assert "server.port" in err
