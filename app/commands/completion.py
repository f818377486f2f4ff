"""`samovar completion`: a script that teaches a shell to complete this command's verbs and flags."""

import argparse

import shtab

from app.commands.arguments import DONE, Commands, add_verb

_HOW = """\
once, for all new shells:
  bash   samovar completion bash > ~/.local/share/bash-completion/completions/samovar
  zsh    samovar completion zsh > "${fpath[1]}/_samovar"
  fish   samovar completion fish > ~/.config/fish/completions/samovar.fish"""

_SHELLS = ("bash", "zsh", "fish")


def register(commands: Commands, root: argparse.ArgumentParser) -> None:
    """Add the verb; `root` is the parser of the whole command."""

    def write(arguments: argparse.Namespace) -> int:
        print(shtab.complete(root, shell=arguments.shell))
        return DONE

    verb = add_verb(commands, "completion", write, "print a script that lets a shell complete this command")
    verb.epilog = _HOW
    verb.add_argument("shell", choices=_SHELLS, help="the shell it is for")
