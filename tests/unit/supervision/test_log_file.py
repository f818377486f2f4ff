"""The log file: everything a process says is in it, and a new one is begun when it is moved away."""

import subprocess
import sys
from pathlib import Path

import pytest

from app.errors import StartError
from app.supervision.log_file import LogFile

ROOT = Path(__file__).parents[3]

TALKER = """
import os, sys
from pathlib import Path
from app.supervision.log_file import LogFile
path = Path(sys.argv[1])
log = LogFile(path)
log.open()
print("first", flush=True)
os.write(2, b"from below Python\\n")
log.follow()
path.rename(path.with_suffix(".0"))
print("into the old one", flush=True)
log.follow()
print("second", file=sys.stderr)
path.unlink()
log.follow()
os.system("echo from a child")
path.parent.rename(path.parent.with_name("away"))
log.follow()
log.follow()
print("last")
"""


def test_output_follows_the_file(tmp_path):
    """Moved, removed, or in a folder that is gone: what is written is in the newest file that can be had."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "samovar.log").write_text("there before\n")
    done = subprocess.run(
        [sys.executable, "-c", TALKER, str(tmp_path / "logs" / "samovar.log")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    away = tmp_path / "away"
    assert (done.stdout, done.stderr) == ("", "")
    assert (away / "samovar.0").read_text().splitlines() == [
        "there before",
        "first",
        "from below Python",
        "into the old one",
    ]
    child, complaint, last = (away / "samovar.log").read_text().splitlines()
    assert (child, last) == ("from a child", "last")
    assert "cannot be opened anew: No such file or directory" in complaint


def test_a_file_that_cannot_be_written_stops_the_start(tmp_path):
    """One sentence that names the setting; standard output is left as it was."""
    with pytest.raises(StartError, match=r"telemetry\.log_file.*Is a directory"):
        LogFile(tmp_path).open()
