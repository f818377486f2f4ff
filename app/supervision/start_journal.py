"""Remembers, over the process's end, which starts did not end well, and says when to hold back the next.

A supervisor such as launchd starts a crashing server again for ever, and each start may leave gigabytes of
wired memory behind. Knows no settings, no model and no HTTP.
"""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

_FORMAT = 1
_MOST_BYTES = 64 * 1024
"""A file larger than this was not written here."""
_SPARE_STARTS = 100
"""Starts kept beyond the limit: they are counted on a gauge and decide nothing."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CrashLoop:
    """So many starts within so long make one."""

    starts: int
    window_seconds: float


def recent(starts: Sequence[float], rule: CrashLoop, now: float) -> tuple[float, ...]:
    """Those of `starts` that lie in the window which ends `now`, in order; all are unix seconds.

    A start in the future was written before the clock was set back. It cannot be placed, and is left out.
    """
    return _since(starts, now - rule.window_seconds, now)


def held_seconds(starts: Sequence[float], rule: CrashLoop, now: float) -> float:
    """How long a start is to be held back; 0 where it is not.

    It counts from the last start of a crash loop, not from the first: nothing is tried for a whole window.
    """
    last = _since(starts, now - 2 * rule.window_seconds, now)[-rule.starts :]
    if len(last) < rule.starts or last[-1] - last[0] >= rule.window_seconds:
        return 0.0
    # In this order a sum of large times cannot round the wait up beyond the window.
    return max(0.0, rule.window_seconds - (now - last[-1]))


def _since(starts: Sequence[float], earliest: float, now: float) -> tuple[float, ...]:
    return tuple(sorted(start for start in starts if earliest < start <= now))


def read_starts(file: Path) -> tuple[float, ...]:
    """The starts in a journal, in unix seconds; none if there is no file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no journal.
    """
    try:
        with file.open("rb") as opened:
            content = opened.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        return ()
    if len(content) > _MOST_BYTES:
        raise ValueError(f"it is larger than {_MOST_BYTES} bytes")
    try:
        written = json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(written, dict) or written.get("format") != _FORMAT:
        raise ValueError(f"it is not of format {_FORMAT}")
    starts = written.get("unix_seconds")
    if not isinstance(starts, list) or not all(type(start) in {int, float} for start in starts):
        raise ValueError("unix_seconds is not a list of numbers")
    try:
        return tuple(map(float, starts))
    except OverflowError:
        raise ValueError("unix_seconds has a number beyond all times") from None


def write_starts(file: Path, starts: Sequence[float]) -> None:
    """Put a journal in the place of what was there, whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        with beside.open("w", encoding="utf-8") as opened:
            json.dump({"format": _FORMAT, "unix_seconds": list(starts)}, opened)
            opened.flush()
            # Without this, a machine that loses its power may keep the new name and none of the content.
            os.fsync(opened.fileno())
        beside.replace(file)
    finally:
        beside.unlink(missing_ok=True)


class StartJournal:
    """The starts of one server. What cannot be read or written is a warning, never the end of a start.

    Args:
        file: where it is kept; its folder is made when it is needed. At most one running server has it.
        rule: what counts as a crash loop.
        unix_seconds: wall time, the only one that outlives a process.
    """

    def __init__(self, file: Path, rule: CrashLoop, *, unix_seconds: Callable[[], float]) -> None:
        self.file = file
        self.rule = rule
        self._now = unix_seconds
        self._starts: tuple[float, ...] = ()
        self._own: float | None = None
        self._warned = False

    def recent(self) -> int:
        """How many starts of the window did not end well, this one included; as it was last read."""
        return len(recent(self._starts, self.rule, self._now()))

    def held_seconds(self) -> float:
        """How long to hold back from now on; 0 if at once is fine. Reads the file, so that it can be told."""
        try:
            self._starts = read_starts(self.file)
        except ValueError as error:
            self._warn("the journal of starts is damaged, and begun anew", error)
            self._starts = ()
        except OSError as error:
            self._warn("the journal of starts cannot be read, so that crash loops go unnoticed", error)
            self._starts = ()
        return held_seconds(self._starts, self.rule, self._now())

    def begin(self) -> None:
        """This start begins: it counts until it has ended well, or for as long as the window."""
        self._own = self._now()
        kept = _since(self._starts, self._own - 2 * self.rule.window_seconds, self._own)
        kept = kept[-(self.rule.starts + _SPARE_STARTS) :]
        self._write((*kept, self._own))

    def refuse(self) -> None:
        """This start ended with a reason that was said, as for a wrong setting: it does not count."""
        if self._own is not None:
            self._write(tuple(start for start in self._starts if start != self._own))

    def clear(self) -> None:
        """The server was stopped by somebody: nothing counts any more."""
        self._starts = ()
        try:
            self.file.unlink(missing_ok=True)
        except OSError as error:
            self._warn("the journal of starts cannot be removed", error)

    def _write(self, starts: tuple[float, ...]) -> None:
        self._starts = starts
        try:
            write_starts(self.file, starts)
        except OSError as error:
            self._warn("the journal of starts cannot be written, so that crash loops go unnoticed", error)

    def _warn(self, what: str, error: Exception) -> None:
        # A held start reads again and again; once is news.
        if not self._warned:
            self._warned = True
            log.warning(what, file=str(self.file), reason=str(error))
