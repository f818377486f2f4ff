"""The unit as systemd itself reads it, and what it promises to the server."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from app.cli import _parser
from app.runtime import ENGINE_END_SECONDS
from app.server import ATTENDANCE_SECONDS, FAREWELL_SECONDS
from app.settings.keys import all_keys
from app.settings.layers import built_in

SHIPPED = Path(__file__).parents[3] / "ops" / "systemd"
PROGRAM = "/opt/samovar/bin/samovar"


def analyze(*arguments):
    """`systemd-analyze`; its exit code is 0 even for keys that it does not know."""
    path = shutil.which("systemd-analyze")
    assert path, "systemd-analyze is not installed; .ci/run lists the packages that tests need"
    return subprocess.run([path, *arguments], capture_output=True, text=True, check=False, timeout=60)


def complaints(folder, unit, drop_in=""):
    """What systemd says of a unit whose program is there; nothing if it is fine."""
    file = folder / "samovar.service"
    # The place where the unit says the command is need not exist on a machine that only tests it.
    file.write_text(unit.replace(PROGRAM, str(Path(sys.executable).absolute())))
    if drop_in:
        (folder / "samovar.service.d").mkdir(exist_ok=True)
        (folder / "samovar.service.d" / "gpu.conf").write_text(drop_in)
    done = analyze("verify", "--man=no", str(file))
    return (done.stdout + done.stderr).replace(str(folder), "").strip() or ("exit" if done.returncode else "")


def unit_text():
    return (SHIPPED / "samovar.service").read_text()


def values(section, name):
    """Every value of a key, in order."""
    text = re.search(rf"^\[{section}\]$(.*?)(?=^\[|\Z)", unit_text(), re.MULTILINE | re.DOTALL)
    assert text
    return re.findall(rf"^{name}=(.*)$", text[1], re.MULTILINE)


def value(section, name):
    [only] = values(section, name)
    return only


def test_systemd_takes_the_unit_and_the_drop_in(tmp_path):
    """Not a word of complaint, which is how systemd tells a key it does not know."""
    assert complaints(tmp_path, unit_text()) == ""
    assert complaints(tmp_path, unit_text(), (SHIPPED / "gpu.conf").read_text()) == ""


@pytest.mark.parametrize(
    ("was", "becomes", "complaint"),
    [
        ("Type=notify", "Type=notified", "Failed to parse service type"),
        ("WatchdogSec=60", "WatchdogSecs=60", "Unknown key"),
        ("TimeoutStopSec=180", "TimeoutStopSec=soon", "Failed to parse"),
        ("UMask=0077", "UMask=9999", "Failed to parse"),
        (PROGRAM, "/no/such/program", "not executable"),
        ("ExecStart=", "ExecStrat=", "has no ExecStart"),
        ("SystemCallFilter=@system-service", "SystemCallFilter=@samovar-service", "Failed to parse|Unknown"),
        ("[Service]", "[Servce]", "Unknown section"),
    ],
)
def test_systemd_refuses_a_broken_unit(tmp_path, was, becomes, complaint):
    """Each kind of fault is one that the check would find."""
    assert was in unit_text()
    assert re.search(complaint, complaints(tmp_path, unit_text().replace(was, becomes)))


def test_a_broken_drop_in_is_refused(tmp_path):
    """The second file is read as well."""
    assert "Unknown key" in complaints(tmp_path, unit_text(), "[Service]\nDeviceAlow=char-nvidia* rw\n")


def exposure(file):
    done = analyze("security", "--offline=true", str(file))
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert found, done.stdout + done.stderr
    return float(found[1])


def test_the_service_is_fenced_in(tmp_path):
    """By systemd's own scale of 0 to 10, where a unit that says nothing of it is at 9.6."""
    bare = tmp_path / "bare.service"
    bare.write_text(f"[Service]\nExecStart={sys.executable}\n")

    assert exposure(SHIPPED / "samovar.service") <= 1.5
    assert exposure(bare) > 9


def test_the_command_is_one_of_ours():
    """The real parser takes it, and every SAMOVAR_ variable is a setting; nothing in it is a secret."""
    program, *arguments = shlex.split(value("Service", "ExecStart"))
    variables = [line.partition("=")[0] for line in values("Service", "Environment")]

    assert program == PROGRAM
    assert _parser().parse_args(arguments).run.__module__ == "app.commands.serve"
    settings = {key.environment for key in all_keys()}
    assert {name for name in variables if name.startswith("SAMOVAR_")} <= settings
    assert not any(re.search("KEY|TOKEN|SECRET|PASSWORD", name) for name in variables)


def test_its_times_leave_the_server_its_own():
    """The drain ends before SIGKILL, the watchdog hears more often than it must, a crash waits a minute."""
    drain_seconds = built_in().server.drain_seconds

    stop_seconds = int(value("Service", "TimeoutStopSec"))
    assert stop_seconds > drain_seconds + FAREWELL_SECONDS + ENGINE_END_SECONDS
    assert int(value("Service", "WatchdogSec")) > 2 * ATTENDANCE_SECONDS
    assert int(value("Service", "RestartSec")) >= 60
    assert value("Service", "Restart") == "on-failure"
    assert value("Unit", "StartLimitIntervalSec") == "0"


def test_only_the_server_itself_is_signalled_first():
    """A clean stop is the main process's: SIGTERM to it alone, and readiness from it alone."""
    assert value("Service", "KillMode") == "mixed"
    assert value("Service", "NotifyAccess") == "main"
    assert value("Service", "Type") == "notify"
