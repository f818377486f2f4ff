"""Holds the load of the model back while the starts before this one make a crash loop.

The server listens meanwhile: probes say why it is not ready, and metrics that somebody should look.
"""

import asyncio

import structlog

from app.errors import ConfigurationError, ModelError, StartError
from app.supervision.start_journal import StartJournal

POLL_SECONDS = 2.0
"""How soon a held start notices that its journal was cleared."""

_REFUSALS = (ConfigurationError, ModelError, StartError)
"""A start that ends so has said what to change, and has left no memory behind: it is no crash."""

log = structlog.get_logger(__name__)


class StartGate:
    """Opened for one start of one server. Used on the event loop; `held` and `recent` from any thread.

    Args:
        journal: what is known of the starts before; None holds nothing back.
    """

    def __init__(self, journal: StartJournal | None) -> None:
        self._journal = journal
        self.held = False

    def recent(self) -> int:
        """How many starts of the journal's window did not end well, this one included."""
        return self._journal.recent() if self._journal else 0

    @property
    def reason(self) -> str:
        """Why the model is not loaded, for a person; empty where nothing is held back."""
        if self._journal is None or not self.held:
            return ""
        window = self._journal.rule.window_seconds
        return (
            f"crash loop: {self._journal.rule.starts} starts within {window:g} seconds did not end well; the"
            f" model is loaded {window:g} seconds after the last of them, or after `samovar starts clear`"
        )

    async def opened(self) -> None:
        """Return once the model may be loaded: at once, after the window, or when the journal is cleared."""
        if self._journal is None:
            return
        while (seconds := self._journal.held_seconds()) > 0:
            if not self.held:
                self.held = True
                log.error(self.reason, file=str(self._journal.file), seconds_left=round(seconds))
            await asyncio.sleep(min(seconds, POLL_SECONDS))
        if self.held:
            self.held = False
            log.info("the model is loaded again after a crash loop")

    def begin(self) -> None:
        """The model is about to be loaded."""
        if self._journal is not None:
            self._journal.begin()

    def ended(self, error: Exception | None) -> None:
        """The server has ended: told to (None), or with `error`. A process that is killed never says so."""
        if self._journal is None:
            return
        if error is None:
            self._journal.clear()
        elif isinstance(error, _REFUSALS):
            self._journal.refuse()
