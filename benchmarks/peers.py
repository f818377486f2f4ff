"""llama.cpp as a server beside ours: its environment, made from pins once, and its process."""

import hashlib
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import platformdirs

from benchmarks.servers import LLAMA_CPP, Running, free_port, running

ROOT = Path(__file__).parents[1]
PINS = ROOT / "constraints" / "peers.txt"
PROGRAM = Path(__file__).with_name("llama_server.py")


def peer_python() -> Path:
    """The Python of an environment with the peers, as they are pinned; made where it is not there yet."""
    digest = hashlib.blake2b(PINS.read_bytes(), digest_size=8).hexdigest()
    environment = platformdirs.user_cache_path("samovar-benchmarks") / f"peers-{digest}"
    python, whole = environment / "bin" / "python", environment / "whole"
    if not whole.exists():
        uv = Path(sys.executable).with_name("uv")
        subprocess.run([uv, "venv", "-q", "--clear", "--python", sys.executable, environment], check=True)
        pinned = ("--no-deps", "--require-hashes", "-r", PINS)
        subprocess.run([uv, "pip", "install", "-q", "--python", python, *pinned], check=True)
        whole.touch()
    return python


def peer_version() -> str:
    """Which llama.cpp that is, as its wheel is numbered."""
    asked = "import importlib.metadata as m; print(m.version('xllamacpp'))"
    return subprocess.run(
        [peer_python(), "-c", asked], check=True, capture_output=True, text=True
    ).stdout.strip()


def llama_cpp(
    model: Path, *, slots: int, context_tokens: int, cache_mib: int, threads: int
) -> AbstractContextManager[Running]:
    """A server of a GGUF file with so many slots of so many tokens, and so much memory for other prompts."""
    port = free_port()
    flags = {
        "model": model,
        "port": port,
        "slots": slots,
        "context-tokens": context_tokens,
        "cache-mib": cache_mib,
        "threads": threads,
    }
    command = [str(peer_python()), str(PROGRAM), *(f"--{name}={value}" for name, value in flags.items())]
    return running(LLAMA_CPP, command, port, str(model))
