"""Install and removal: the steps that are shown are those that are taken, in launchd's order."""

import plistlib
import stat
import sys

import pytest

from app.errors import StartError
from app.supervision import launchctl
from app.supervision.launchctl import (
    AwaitEnd,
    MakeFolder,
    Place,
    RemoveFile,
    RunProgram,
    WriteFile,
    describe,
    install_steps,
    place_of,
    take,
    uninstall_steps,
)
from app.supervision.launchd import Job, Kind, newsyslog_rule, property_list

# launchctl is macOS's alone: this one knows whether a job is loaded, and notes what it is told.
RECORDER = """#!/bin/sh
echo "$@" >> {folder}/calls
case "$1" in
  bootstrap) touch {folder}/loaded ;;
  bootout) test -e {folder}/loaded || exit 3; touch {folder}/ending ;;
  print)
    test -e {folder}/loaded || exit 113
    test ! -e {folder}/ending || {{ rm {folder}/ending {folder}/loaded; }} ;;
esac
"""


@pytest.fixture
def mac(tmp_path, monkeypatch):
    """A folder with a launchctl in it; the job of an agent, and its place."""
    program = tmp_path / "launchctl"
    program.write_text(RECORDER.format(folder=tmp_path))
    program.chmod(0o755)
    monkeypatch.setattr(launchctl, "LAUNCHCTL", str(program))
    return tmp_path


def job(folder, **changes):
    return Job(
        **{
            "kind": Kind.AGENT,
            "label": "org.samovar.server",
            "program": folder / "samovar",
            "arguments": ("serve",),
            "log_folder": folder / "logs",
            "working_folder": folder / "state",
            "drain_seconds": 30.0,
            **changes,
        }
    )


def calls(folder):
    return [line.split()[0] for line in (folder / "calls").read_text().splitlines()]


def test_an_install_makes_what_it_needs_and_starts_the_job(mac):
    """Folders, property list, then enable and bootstrap; nothing is left beside the property list."""
    place = Place(mac / "LaunchAgents", "gui/501")
    steps = install_steps(job(mac), place)

    take(steps, sleep=lambda _seconds: None)

    file = place.folder / "org.samovar.server.plist"
    assert file.read_bytes() == property_list(job(mac))
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert list(place.folder.iterdir()) == [file]
    assert stat.S_IMODE((mac / "state").stat().st_mode) == 0o700
    assert (mac / "logs").is_dir()
    assert calls(mac) == ["bootout", "print", "enable", "bootstrap"]


def test_a_second_install_waits_for_the_end_of_the_first(mac):
    """The old job drains before the new one is bootstrapped, which would fail until then."""
    place = Place(mac / "LaunchAgents", "gui/501")
    take(install_steps(job(mac), place), sleep=lambda _seconds: None)
    (mac / "calls").unlink()

    take(install_steps(job(mac, drain_seconds=600.0), place), sleep=lambda _seconds: None)

    assert calls(mac) == ["bootout", "print", "print", "enable", "bootstrap"]
    [file] = place.folder.iterdir()
    assert plistlib.loads(file.read_bytes())["ExitTimeOut"] == 720


def test_an_uninstall_leaves_nothing_but_what_is_the_users(mac):
    """The job ends and its file goes; logs and state stay; doing it again is no error."""
    place = Place(mac / "LaunchAgents", "gui/501")
    take(install_steps(job(mac), place), sleep=lambda _seconds: None)
    for _ in range(2):
        take(uninstall_steps("org.samovar.server", Kind.AGENT, place), sleep=lambda _seconds: None)

    assert list(place.folder.iterdir()) == []
    assert not (mac / "loaded").exists()
    assert (mac / "logs").is_dir()
    assert (mac / "state").is_dir()


def test_a_job_that_does_not_end_is_said(mac):
    """The wait has an end, after launchd's own."""
    (mac / "loaded").touch()
    now = iter(range(100))

    with pytest.raises(StartError, match="it has not ended"):
        take(
            [AwaitEnd((str(mac / "launchctl"), "print", "gui/1/x"), 10.0)],
            clock=lambda: float(next(now)),
            sleep=lambda _seconds: None,
        )


def test_a_daemon_has_its_account_and_its_rule(tmp_path):
    """Its folders are the account's, and newsyslog gets a rule beside launchd's file."""
    daemon = job(tmp_path, kind=Kind.DAEMON, user="_samovar", group="_samovar")
    place = place_of(Kind.DAEMON, home=tmp_path, uid=501)
    steps = install_steps(daemon, place)

    assert (str(place.folder), place.domain) == ("/Library/LaunchDaemons", "system")
    assert [step.owner for step in steps if isinstance(step, MakeFolder)] == [("_samovar", "_samovar")] * 2
    written = {str(step.path): step.content for step in steps if isinstance(step, WriteFile)}
    rule = "/etc/newsyslog.d/org.samovar.server.conf"
    assert written[rule] == newsyslog_rule(daemon).encode()
    removed = [
        str(step.path)
        for step in uninstall_steps(daemon.label, Kind.DAEMON, place)
        if isinstance(step, RemoveFile)
    ]
    assert removed == list(written)


def test_an_unknown_account_leaves_no_folder(tmp_path):
    """A folder of root's that the server cannot write would be worse than none."""
    with pytest.raises(StartError, match=r"mkdir .* for nobody-here:nobody-here: .*not found"):
        take([MakeFolder(tmp_path / "state", 0o700, ("nobody-here", "nobody-here"))])

    assert not (tmp_path / "state").exists()


def test_a_folder_that_is_there_keeps_its_mode_and_owner(tmp_path):
    """Whatever somebody set up by hand stays as it is."""
    folder = tmp_path / "state"
    folder.mkdir(mode=0o755)

    take([MakeFolder(folder, 0o700, ("root", "root"))])

    assert stat.S_IMODE(folder.stat().st_mode) == 0o755


@pytest.mark.parametrize("step", [RunProgram(("/bin/false",)), RunProgram(("/no/such/program",))])
def test_a_step_that_fails_ends_it(tmp_path, step):
    """What comes after it is not done, and the message is the step."""
    with pytest.raises(StartError, match=step.argv[0]):
        take([step, MakeFolder(tmp_path / "never", 0o700, None)])

    assert not (tmp_path / "never").exists()


def test_a_dry_run_prints_every_step_and_takes_none(samovar):
    """On any system, `install --dry-run` shows the steps of the install in their order."""
    done = samovar("install", "--agent", "--dry-run")

    assert (done.code, done.err) == (0, "")
    verbs = [line.split()[0] for line in done.out.splitlines()]
    assert (
        verbs
        == ["mkdir", "mkdir", "mkdir", "/bin/launchctl", "/bin/launchctl", "write"] + ["/bin/launchctl"] * 2
    )
    assert "/Users/you/Library/LaunchAgents/org.samovar.server.plist" in done.out


@pytest.mark.parametrize("verb", ["uninstall", "status"])
def test_the_other_verbs_have_a_dry_run_too(samovar, verb):
    """What is shown is a launchctl command that can be typed."""
    done = samovar(verb, "--dry-run", "--label", "com.example.llm")

    assert done.code == 0
    assert "/bin/launchctl print system/com.example.llm" in done.out


@pytest.mark.parametrize("verb", ["install", "uninstall", "status"])
def test_elsewhere_than_on_a_mac_it_is_refused(samovar, verb, monkeypatch):
    """One sentence that says what works here."""
    monkeypatch.setattr(sys, "platform", "linux")

    done = samovar(verb)

    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("samovar: launchd is macOS's; here --dry-run shows")


def test_every_step_has_words():
    """A dry run never shows a program's own name for a step."""
    assert describe(RunProgram(("a", "b"), may_fail=True)) == "a b (may fail)"
    assert describe(RemoveFile(launchctl.RULES / "x")) == "rm -f /etc/newsyslog.d/x"
    assert "until it fails" in describe(AwaitEnd(("a",), 1.0))
