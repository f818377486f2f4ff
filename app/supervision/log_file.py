"""Writes what the process says into a file, and begins a new one when that is moved away. Knows no logging.

launchd opens a service's log once and newsyslog renames it; the service would write on into the old one for
ever. Standard output and error as a whole go to the file, so that a crash's last words are in it too.
"""

import os
import sys
from pathlib import Path

from app.errors import StartError

_MODE = 0o640


class LogFile:
    """Standard output and error of this process, in a file from `open` on.

    Args:
        path: the file; it is appended to, and made if it is not there. Its folder must exist.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._identity: tuple[int, int] | None = None
        self._complained = False

    def open(self) -> None:
        """Send standard output and error there.

        Raises:
            StartError: the file cannot be written.
        """
        try:
            self._redirect()
        except OSError as error:
            raise StartError(
                f"The log file {self._path} (telemetry.log_file) cannot be written: {error.strerror}."
            ) from error

    def close(self) -> None:
        """Give up what a full disk has refused so far: Python would fail on it once more on its way out."""
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, stream.fileno())
                os.close(nowhere)

    def follow(self) -> None:
        """Begin a new file if the one in use was moved or removed; where that fails, go on in the old one."""
        try:
            if self._identity_of_path() != self._identity:
                self._redirect()
        except OSError as error:
            if not self._complained:
                self._complained = True
                sys.stderr.write(f"samovar: {self._path} cannot be opened anew: {error.strerror}\n")
        else:
            self._complained = False

    def _identity_of_path(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def _redirect(self) -> None:
        opened = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _MODE)
        try:
            sys.stdout.flush()
            sys.stderr.flush()
            for descriptor in (1, 2):
                os.dup2(opened, descriptor)
            found = os.fstat(opened)
            self._identity = found.st_dev, found.st_ino
        finally:
            os.close(opened)
