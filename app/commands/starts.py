"""`samovar starts`: what the journal of starts says, and how to end a crash loop's wait."""

import argparse
import time

from app.commands.arguments import DONE, Commands, add_group, add_settings_verb, load
from app.errors import StartError
from app.starts import start_journal
from app.supervision.start_journal import StartJournal, held_seconds, read_starts, recent


def register(commands: Commands) -> None:
    """Add the verbs."""
    looks = add_group(commands, "starts", "look after the journal of starts")
    add_settings_verb(
        looks, "show", _show, "print which starts did not end well, and whether one is held back"
    )
    add_settings_verb(
        looks, "clear", _clear, "forget them, so that a server that is held back loads its model"
    )


def _show(arguments: argparse.Namespace) -> int:
    journal = _journal(arguments)
    try:
        starts = read_starts(journal.file)
    except (OSError, ValueError) as error:
        raise StartError(f"{journal.file}: the journal of starts cannot be read: {error}") from error
    now = time.time()
    counted = recent(starts, journal.rule, now)
    print(f"{journal.file}: {len(counted)} of {journal.rule.starts} starts that make a crash loop")
    for start in counted:
        print(f"  {now - start:.0f} seconds ago")
    if held := held_seconds(starts, journal.rule, now):
        print(f"the model is not loaded for another {held:.0f} seconds; `samovar starts clear` ends that")
    return DONE


def _clear(arguments: argparse.Namespace) -> int:
    journal = _journal(arguments)
    try:
        journal.file.unlink(missing_ok=True)
    except OSError as error:
        raise StartError(
            f"{journal.file}: the journal of starts cannot be removed: {error.strerror}"
        ) from error
    print(f"{journal.file}: cleared")
    return DONE


def _journal(arguments: argparse.Namespace) -> StartJournal:
    journal = start_journal(load(arguments).settings)
    if journal is None:
        raise StartError(
            "no journal of starts is kept with server.crash_loop_starts = off, nor with server.port = 0"
        )
    return journal
