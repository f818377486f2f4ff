"""Starts Granian on the built application, drains it and decides the exit code. Knows no MLX."""

import asyncio
from typing import Protocol

from litestar import Litestar

from app.errors import SamovarError
from app.settings.schema import Provenance, Settings


class Runtime(Protocol):
    """The built program as the server needs it. All of it is called on the event loop's thread.

    The order of calls: `start`, then either `ready` returns or `failure` does; on a signal `drain`, then
    `idle` within the deadline or else `abort`; at last `close`, whatever happened before.
    """

    @property
    def app(self) -> Litestar:
        """What Granian serves, from before `start` until after `abort`."""
        ...

    @property
    def model_name(self) -> str:
        """What clients ask for; known once `ready` has returned."""
        ...

    def start(self) -> None:
        """Start the engine thread, which loads the model, and return at once."""
        ...

    async def ready(self) -> None:
        """Return once the model is loaded; wait for ever if it never is."""
        ...

    async def failure(self) -> SamovarError:
        """Return why the engine thread ended by itself (a failed load, a crash); else wait for ever."""
        ...

    def drain(self) -> None:
        """From now on: readiness off, new work refused with 503. Idempotent."""
        ...

    async def idle(self) -> None:
        """Return once every inference request has been answered (`OpenRequests.none_left`)."""
        ...

    def abort(self, message: str) -> None:
        """Cancel what runs and end its answers with an error (`LoopSink.end_all`)."""
        ...

    async def close(self) -> None:
        """End the engine thread and flush telemetry. Idempotent; safe if `start` never ran."""
        ...
