"""The journal of starts that the settings ask for. Knows where it lies, and not what it is for."""

import re
import time
from pathlib import Path

import platformdirs

from app.settings.schema import Settings
from app.supervision.start_journal import CrashLoop, StartJournal


def start_journal(settings: Settings) -> StartJournal | None:
    """The journal of the server with that address; None where none is to be kept.

    A server that takes any free port cannot be told from the next one, and has none.
    """
    server = settings.server
    if server.crash_loop_starts == "off" or server.port == 0:
        return None
    folder = Path(server.state_folder or platformdirs.user_state_dir("samovar")).expanduser().absolute()
    # Two servers with the same address never run at once: each journal has one writer.
    host = re.sub(r"[^A-Za-z0-9.-]", "_", server.host)
    return StartJournal(
        folder / f"starts-{host}-{server.port}.json",
        CrashLoop(server.crash_loop_starts, server.crash_loop_seconds),
        unix_seconds=time.time,
    )
