"""Other people's clients as real processes, as they are pinned, in an environment of their own."""

import fcntl
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import platformdirs

PINS = Path(__file__).parents[2] / "constraints" / "clients.txt"


def client_commands() -> Path:
    """The folder of their commands; the environment is made once for all runs."""
    digest = hashlib.blake2b(PINS.read_bytes(), digest_size=8).hexdigest()
    cache = platformdirs.user_cache_path("samovar-tests", ensure_exists=True)
    environment = cache / f"clients-{digest}"
    whole = environment / "whole"
    # Tests run in several processes: one of them makes it, the others wait.
    with (cache / "clients.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not whole.exists():
            uv = Path(sys.executable).with_name("uv")
            subprocess.run([uv, "venv", "-q", "--clear", "--python", sys.executable, environment], check=True)
            into = ("--python", environment / "bin" / "python")
            pinned = ("--no-deps", "--require-hashes", "-r", PINS)
            subprocess.run([uv, "pip", "install", "-q", *into, *pinned], check=True)
            whole.touch()
    return environment / "bin"


def run_client(*command: str | Path, home: Path, seconds: float = 120) -> subprocess.CompletedProcess[str]:
    """A client's program, without anything of this environment that could point it elsewhere.

    Args:
        command: the program and its arguments.
        home: where it may leave what it likes.
        seconds: how long it may take.
    """
    ran = subprocess.run(
        command,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "TMPDIR": str(home),
            # Else LiteLLM asks another host what models cost, and waits for it.
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran
