"""Knows what launchd.plist(5) takes under each key that we write, and other people's parsers."""

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]
SHIPPED = ROOT / "ops" / "launchd"
PROGRAM = "/opt/samovar/bin/samovar"
HOME = "/Users/you"

KEYS: dict[str, type] = {
    "Label": str,
    "ProgramArguments": list,
    "WorkingDirectory": str,
    "EnvironmentVariables": dict,
    "RunAtLoad": bool,
    "KeepAlive": dict,
    "ThrottleInterval": int,
    "ExitTimeOut": int,
    "ProcessType": str,
    "SoftResourceLimits": dict,
    "HardResourceLimits": dict,
    "Umask": int,
    "StandardOutPath": str,
    "StandardErrorPath": str,
    "UserName": str,
    "GroupName": str,
}
DAEMONS_ALONE = {"UserName", "GroupName"}
ABSOLUTE = ("WorkingDirectory", "StandardOutPath", "StandardErrorPath")
PROCESS_TYPES = {"Background", "Standard", "Adaptive", "Interactive"}


def faults(keys: dict[str, object], *, file_name: str) -> list[str]:
    """What launchd would not take, or would take to mean something else."""
    found = [f"unknown key {key}" for key in keys if key not in KEYS]
    agent = "UserName" not in keys
    wanted = KEYS.keys() - (DAEMONS_ALONE if agent else set())
    found += [f"missing key {key}" for key in wanted if key not in keys]
    # True is an int to Python, and an error to launchd.
    found += [f"type of {key}" for key, value in keys.items() if key in KEYS and type(value) is not KEYS[key]]
    if found:
        return found
    arguments = keys["ProgramArguments"]
    assert isinstance(arguments, list)
    if not all(type(argument) is str for argument in arguments) or not arguments[0].startswith("/"):
        found.append("ProgramArguments")
    found += [f"relative {key}" for key in ABSOLUTE if not str(keys[key]).startswith("/")]
    if f"{keys['Label']}.plist" != file_name:
        found.append("Label is not the file's name")
    if keys["ProcessType"] not in PROCESS_TYPES:
        found.append("ProcessType")
    for limits in ("SoftResourceLimits", "HardResourceLimits"):
        if [(name, type(number)) for name, number in dict(keys[limits]).items()] != [("NumberOfFiles", int)]:  # type: ignore[call-overload]
            found.append(limits)
    return found


def parse_with_gnustep(file: Path) -> bool:
    """Whether GNUstep's parser reads it as a dictionary."""
    done = _tool("plparse", str(file))
    return done.returncode == 0 and "a dictionary" in done.stdout + done.stderr


def round_trip(file: Path, folder: Path) -> bytes:
    """XML to binary and back through plistutil; empty if it complained (its exit code is 0 even then)."""
    binary, xml = folder / "binary.plist", folder / "again.plist"
    for source, target, form in ((file, binary, "bin"), (binary, xml, "xml")):
        done = _tool("plistutil", "-i", str(source), "-o", str(target), "-f", form)
        if done.stderr or done.returncode or not target.exists():
            return b""
    return xml.read_bytes()


def _tool(name: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    path = shutil.which(name)
    assert path, f"{name} is not installed; .ci/run lists the packages that tests need"
    return subprocess.run([path, *arguments], capture_output=True, text=True, check=False, timeout=60)
