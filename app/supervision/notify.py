"""Tells systemd how the service is: ready, stopping, what it does, that it is still alive.

The protocol is that of sd_notify(3): datagrams of `NAME=value` lines to the socket in NOTIFY_SOCKET. Whoever
was not started by systemd has no such socket, and says nothing. Knows no engine and no HTTP.
"""

import os
import socket
from collections.abc import Mapping

import structlog

log = structlog.get_logger(__name__)


class Notifier:
    """Messages to the service manager; one that cannot be sent is logged once and harms nothing.

    Args:
        address: of the socket, as in NOTIFY_SOCKET; None says nothing.
        watchdog_seconds: how long it may hear nothing before it takes the service for dead; None is for ever.
    """

    def __init__(self, address: str | None, watchdog_seconds: float | None = None) -> None:
        self._address = address
        self._warned = False
        self.watchdog_seconds = watchdog_seconds if address else None

    def ready(self, status: str) -> None:
        """The model is loaded; `status` is a line for `systemctl status`."""
        self._send("READY=1", f"STATUS={status}")

    def status(self, status: str) -> None:
        """What the service does now."""
        self._send(f"STATUS={status}")

    def stopping(self) -> None:
        """The drain has begun."""
        self._send("STOPPING=1", "STATUS=draining")

    def alive(self) -> None:
        """Start the watchdog's wait anew, if there is one."""
        if self.watchdog_seconds is not None:
            self._send("WATCHDOG=1")

    def _send(self, *lines: str) -> None:
        if self._address is None:
            return
        # A first @ stands for a zero byte: an abstract name, which is in no folder.
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                # The event loop calls this: it must not wait for a reader.
                sender.sendto("\n".join(lines).encode(), socket.MSG_DONTWAIT, address)
        except OSError as error:
            if not self._warned:
                self._warned = True
                log.warning("the service manager cannot be told", socket=self._address, reason=str(error))


def notifier(environ: Mapping[str, str]) -> Notifier:
    """What the environment of a service asks for (sd_notify(3), sd_watchdog_enabled(3))."""
    address = environ.get("NOTIFY_SOCKET")
    # Children inherit the variables; the watchdog is about the process that is named.
    watched = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    microseconds = environ.get("WATCHDOG_USEC", "")
    return Notifier(
        address if address and address[0] in "/@" else None,
        int(microseconds) / 1e6 if watched and microseconds.isdecimal() and int(microseconds) else None,
    )
