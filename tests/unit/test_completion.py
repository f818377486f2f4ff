"""What a shell completes once it has read the script of `samovar completion`, in the shells themselves."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

VERBS = {"serve", "chat", "config", "keys", "cache", "bench", "launchd", "starts", "completion"}

BASH = """
source "$1"
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
$(complete -p samovar | sed 's/.*-F \\([^ ]*\\).*/\\1/') samovar "${@: -1}" ""
printf '%s\\n' "${COMPREPLY[@]}"
"""

FISH = """
source $argv[1]
complete -C "$argv[2..]" | string split -f 1 \\t
"""

# A shell of its own in a pseudo-terminal: zsh completes only where somebody types. Nothing is typed while it
# lists, because that would end the list.
ZSH = """
zmodload zsh/zpty
zpty asked zsh -f -i
zpty -w asked "fpath=(${1:h} \\$fpath); autoload -Uz compinit; compinit -u"
zpty -w asked "list() { zle list-choices; zle -R; print -r END''S }; zle -N list; bindkey '^I' list"
zpty -w asked "print -r BEGIN''S"
zpty -r -m asked seen '*BEGINS*'
shift
zpty -n -w asked "$*"$'\\t'
zpty -r -m asked seen '*ENDS*'
print -r -- $seen
"""

_MOVES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
"""What moves the cursor of a terminal."""


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the script of each shell, as its user writes it."""
    folder = tmp_path_factory.mktemp("completion")
    for shell in ("bash", "zsh", "fish"):
        written = subprocess.run(
            [sys.executable, "-m", "app", "completion", shell], capture_output=True, text=True, check=True
        )
        (folder / f"_samovar{'' if shell == 'zsh' else '.' + shell}").write_text(written.stdout)
    return folder


def said(*command: str | Path) -> str:
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    assert ran.stderr == ""
    return ran.stdout


def in_bash(scripts: Path, *words: str) -> set[str]:
    return set(said("bash", "--norc", "-c", BASH, "bash", scripts / "_samovar.bash", *words).split())


def in_fish(scripts: Path, *words: str) -> set[str]:
    return set(said("fish", "--no-config", "-c", FISH, scripts / "_samovar.fish", " ".join(words)).split())


def in_zsh(scripts: Path, *words: str) -> set[str]:
    screen = said("zsh", "-f", "-c", ZSH, "zsh", scripts / "_samovar", " ".join(words))
    return set(_MOVES.sub(" ", screen).split())


SHELLS = pytest.mark.parametrize("complete", [in_bash, in_fish, in_zsh])


@SHELLS
def test_every_verb_is_completed(scripts, complete):
    """Whoever types the name of the command sees all it can do."""
    assert complete(scripts, "samovar", "") >= VERBS


@SHELLS
def test_verbs_of_a_group_are_completed(scripts, complete):
    """And those of a command that has verbs of its own."""
    assert complete(scripts, "samovar", "cache", "") >= {"size", "stats", "reset"}


@SHELLS
def test_flags_are_completed_from_their_beginning(scripts, complete):
    """Settings are flags, and those that begin alike are offered together."""
    offered = complete(scripts, "samovar", "serve", "--snapshot-c")
    assert {"--snapshot-capacity-bytes", "--snapshot-completions"} <= offered
    assert not any(word.startswith("--snapshot-t") for word in offered)


def test_a_value_that_is_a_path_is_completed_as_one(scripts, tmp_path, monkeypatch):
    """The model's folder, a file of settings."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-model").mkdir()
    for flag in ("--model", "--config", "--chat-template"):
        assert {word.rstrip("/") for word in in_bash(scripts, "samovar", "serve", flag, "my")} == {"my-model"}


def test_an_unknown_shell_is_refused_with_those_there_are():
    """As any value that is not allowed."""
    ran = subprocess.run(
        [sys.executable, "-m", "app", "completion", "tcsh"], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 2
    assert all(shell in ran.stderr for shell in ("bash", "zsh", "fish"))
