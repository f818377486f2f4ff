"""The file the image is made from, read by a linter."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.containers import CONTAINERFILE, ROOT

HADOLINT = Path(sys.executable).parent / "hadolint"

MISTAKES = {
    "DL3002": ("USER 65532:65532", "USER root"),
    "DL3025": ('ENTRYPOINT ["samovar"]', "ENTRYPOINT samovar"),
    "DL3015": ("--no-install-recommends ", ""),
    "DL3003": ("WORKDIR /source\n", "RUN cd /source\n"),
}


def lint(text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([HADOLINT, "-"], input=text, capture_output=True, text=True, check=False)


def test_linter_has_no_objection():
    """hadolint passes the committed file."""
    done = lint(CONTAINERFILE.read_text())

    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("rule", MISTAKES)
def test_linter_finds_a_mistake(rule):
    """The same file with a mistake in it is refused for that mistake."""
    right, wrong = MISTAKES[rule]
    text = CONTAINERFILE.read_text()
    assert right in text

    done = lint(text.replace(right, wrong))

    assert done.returncode == 1
    assert rule in done.stdout


def test_context_is_what_the_build_copies():
    """The ignore file lets in what a COPY names, and nothing else."""
    ignore = CONTAINERFILE.with_name("Containerfile.dockerignore").read_text().splitlines()
    copied = {
        name
        for line in CONTAINERFILE.read_text().splitlines()
        if line.startswith("COPY ") and "--from" not in line
        for name in line.split()[1:-1]
    }

    assert {line.removeprefix("!") for line in ignore if line.startswith("!")} == copied
    assert all((ROOT / name).exists() for name in copied)
