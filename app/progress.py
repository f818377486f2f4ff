"""Shows how far a long job is: a bar on a terminal, one line at its start and end elsewhere."""

from dataclasses import dataclass
from types import TracebackType
from typing import Self, TextIO

import structlog
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Step:
    """A long job that is under way: how many of its parts are done. A `total` of 1 says nothing of that."""

    what: str
    done: int
    total: int

    @property
    def percent(self) -> int | None:
        """How much is done, rounded down; None where nobody can say."""
        return None if self.total <= 1 else 100 * self.done // self.total


class ProgressBar:
    """Told (what, done, total) any number of times, for one job after another; one thread at a time.

    A job whose total is 1 cannot say how far it is: its bar moves to and fro until it is done.

    Args:
        stream: where the bar is drawn if it is a terminal.

    `step` is the job under way, for readers on any thread; None between two of them.
    """

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream)
        self._bar: Progress | None = None
        self._what = ""
        self.step: Step | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def __call__(self, what: str, done: int, total: int) -> None:
        """Show that `done` of `total` parts of `what` are done."""
        if what != self._what:
            self._start(what, total)
        self.step = Step(what, done, total)
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=done)
        if done >= total:
            self._stop()
            log.info("done", what=what)

    def _start(self, what: str, total: int) -> None:
        self._stop()
        self._what = what
        if not self._console.is_terminal:
            log.info("started", what=what)
            return
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        self._bar = Progress(*columns, console=self._console, transient=True)
        self._bar.add_task(what, total=total if total > 1 else None)
        self._bar.start()

    def _stop(self) -> None:
        self._what = ""
        self.step = None
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
