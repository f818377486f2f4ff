"""How the process ends: signals that ask and insist, and an engine that cannot be waited for."""

import asyncio
import atexit
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any

FORCED_EXIT_CODE = 1
"""Of a stop that was told twice, and of one after a failure: requests were ended before their time."""

HURRIED_SECONDS = 3.0
"""How long closing may take once a second signal has come."""


class Signals:
    """SIGTERM and SIGINT, counted: the first asks, the second insists, a third waits for nothing."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.first = asyncio.Event()
        self.second = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._received)

    def _received(self) -> None:
        if not self.first.is_set():
            self.first.set()
        elif not self.second.is_set():
            self.second.set()
        else:
            os._exit(FORCED_EXIT_CODE)


async def close(closing_all: Callable[[], Coroutine[Any, Any, bool]], signals: Signals, code: int) -> None:
    """Close, in a hurry after a second signal. An engine that does not end is left behind.

    The interpreter and MLX cannot be taken down while a thread computes: the process would crash on its way
    out. It ends without them then, once everything else is done.
    """

    async def hurried() -> None:
        await signals.second.wait()
        await asyncio.sleep(HURRIED_SECONDS)

    closing, deadline = asyncio.ensure_future(closing_all()), asyncio.ensure_future(hurried())
    await asyncio.wait([closing, deadline], return_when=asyncio.FIRST_COMPLETED)
    deadline.cancel()
    if not (closing.done() and closing.result()):
        closing.cancel()
        atexit.register(_end_now, FORCED_EXIT_CODE if signals.second.is_set() else code)


def _end_now(code: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
