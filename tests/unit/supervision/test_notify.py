"""Messages to systemd, over real sockets of the kind it makes."""

import contextlib
import os
import socket

import pytest
from structlog.testing import capture_logs

from app.supervision.notify import Notifier, notifier


@contextlib.contextmanager
def manager(address):
    """The service manager's end of the socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(address)
        receiver.settimeout(10)
        yield receiver


def heard(receiver):
    return receiver.recv(4096).decode().splitlines()


@pytest.mark.parametrize("abstract", [False, True])
def test_every_message_is_what_sd_notify_has(tmp_path, abstract):
    """One datagram a message, by a path in a folder or by an abstract name."""
    name = f"@samovar-{os.getpid()}" if abstract else str(tmp_path / "notify")
    with manager(f"\0{name[1:]}" if abstract else name) as receiver:
        told = Notifier(name, watchdog_seconds=60)
        told.ready("serves a model")
        assert heard(receiver) == ["READY=1", "STATUS=serves a model"]
        told.status("loading")
        assert heard(receiver) == ["STATUS=loading"]
        told.alive()
        assert heard(receiver) == ["WATCHDOG=1"]
        told.stopping()
        assert heard(receiver) == ["STOPPING=1", "STATUS=draining"]


def test_without_a_watchdog_nothing_is_said_of_being_alive(tmp_path):
    """Who did not ask is not told every few seconds."""
    with manager(str(tmp_path / "notify")) as receiver:
        receiver.setblocking(False)
        Notifier(str(tmp_path / "notify")).alive()
        with pytest.raises(BlockingIOError):
            receiver.recv(1)


def test_without_a_manager_nothing_is_sent_or_logged():
    """A server that was started by hand has nobody to tell."""
    with capture_logs() as lines:
        Notifier(None).ready("serves")
        Notifier(None, watchdog_seconds=5).alive()

    assert lines == []
    assert Notifier(None, watchdog_seconds=5).watchdog_seconds is None


def test_a_manager_that_is_gone_is_one_warning(tmp_path):
    """Telling it is a courtesy: the server goes on."""
    told = Notifier(str(tmp_path / "nobody"), watchdog_seconds=5)
    with capture_logs() as lines:
        told.ready("serves")
        told.alive()

    assert [line["log_level"] for line in lines] == ["warning"]


def test_a_manager_that_does_not_read_does_not_hold_up_the_server(tmp_path):
    """A full socket loses messages; nobody waits for it."""
    with manager(str(tmp_path / "notify")):
        told = Notifier(str(tmp_path / "notify"), watchdog_seconds=5)
        with capture_logs() as lines:
            for _ in range(2000):
                told.alive()

    assert len(lines) == 1


@pytest.mark.parametrize(
    ("environ", "watchdog_seconds"),
    [
        ({}, None),
        ({"NOTIFY_SOCKET": "/run/notify"}, None),
        ({"WATCHDOG_USEC": "3000000"}, None),
        ({"NOTIFY_SOCKET": "@x", "WATCHDOG_USEC": "3000000"}, 3.0),
        ({"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": str(os.getpid())}, 3.0),
        ({"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"}, None),
        ({"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "soon"}, None),
        ({"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "0"}, None),
        ({"NOTIFY_SOCKET": "vsock:2:1", "WATCHDOG_USEC": "3000000"}, None),
        ({"NOTIFY_SOCKET": "", "WATCHDOG_USEC": "3000000"}, None),
    ],
)
def test_the_environment_says_whom_to_tell(environ, watchdog_seconds):
    """As sd_notify(3) and sd_watchdog_enabled(3): another process's watchdog is none of ours."""
    assert notifier(environ).watchdog_seconds == watchdog_seconds
