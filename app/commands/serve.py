"""`samovar serve`: run the server until the process is told to stop."""

import argparse
import os

from app import garbage
from app.commands.arguments import Commands, add_settings_verb, load
from app.supervision.notify import notifier


def register(commands: Commands) -> None:
    """Add the verb."""
    add_settings_verb(commands, "serve", _serve, "serve a model until the process is told to stop")


def _serve(arguments: argparse.Namespace) -> int:
    with garbage.kept():
        loaded = load(arguments)
        from app.server import serve  # noqa: PLC0415 - brings in MLX and Litestar, which --help can do without

    return serve(loaded.settings, loaded.provenance, notifier(os.environ))
