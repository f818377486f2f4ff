"""What the service manager hears while the server runs: alive unless nothing but a restart helps."""

import asyncio
import contextlib
import socket

import pytest

from app.api.ports import Health, Phase
from app.server import _attended
from app.supervision.notify import Notifier


class Server:
    """A server whose health a test sets."""

    def __init__(self):
        self.state = Health(Phase.LOADING, "loading", 0, 0)

    def become(self, phase, reason):
        self.state = Health(phase, reason, 0, 0)

    def health(self):
        return self.state


@contextlib.asynccontextmanager
async def attended(folder, server):
    """A server under attendance; yields a function that reads lines up to a given one."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(folder / "notify"))
        receiver.setblocking(False)

        async def until(line):
            heard = []
            async with asyncio.timeout(30):
                while line not in heard:
                    received = await asyncio.get_running_loop().sock_recv(receiver, 4096)
                    heard += received.decode().splitlines()
            return heard

        notifier = Notifier(str(folder / "notify"), watchdog_seconds=0.02)
        async with _attended(server, notifier, None):
            yield until


async def test_a_change_is_told_once_and_every_look_is_a_beat(tmp_path):
    """The reason is a status when it is new; the watchdog hears at each look."""
    server = Server()
    async with attended(tmp_path, server) as until:
        await until("STATUS=loading")
        for _ in range(3):
            assert "STATUS=loading" not in await until("WATCHDOG=1")
        server.become(Phase.CRASH_LOOP, "crash loop")
        await until("STATUS=crash loop")
        await until("WATCHDOG=1")


@pytest.mark.parametrize("phase", [Phase.STALLED, Phase.FAILED])
async def test_a_server_that_only_a_restart_helps_is_not_alive(tmp_path, phase):
    """The watchdog hears no more of it, though the event loop goes on."""
    server = Server()
    async with attended(tmp_path, server) as until:
        await until("WATCHDOG=1")
        server.become(phase, "stuck")
        await until("STATUS=stuck")
        server.become(phase, "still stuck")

        assert "WATCHDOG=1" not in await until("STATUS=still stuck")


async def test_the_attendance_ends_with_the_server(tmp_path):
    """Nothing is said, and no task is left, once the block has ended."""
    before = asyncio.all_tasks()
    async with attended(tmp_path, Server()) as until:
        await until("WATCHDOG=1")

    assert asyncio.all_tasks() == before
