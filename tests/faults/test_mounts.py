"""File systems that cannot be written, or have no room: real mounts, in a namespace of the server's own."""

from pathlib import Path

import pytest

from tests.faults.conftest import wait_ready_at
from tests.support.mounted import program_with, read_only, small
from tests.support.ports import free_port
from tests.support.process import Samovar, conversation, samovar

TURNS = ("A first question about tea.", "And a second one, about water.")
ROOM_BYTES = 32 * 1024
NO_FOLDERS_OF_ITS_OWN = {
    "SAMOVAR_SERVER__STATE_FOLDER": "",
    **dict.fromkeys(("XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"), ""),
}


def warnings_of(server: Samovar, *words: str) -> list[str]:
    """Log lines at level warning with all these words."""
    return [
        line
        for line in server.lines_of_json()
        if '"level": "warning"' in line and all(word in line for word in words)
    ]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home folder with nothing in it."""
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def test_a_home_that_is_mounted_read_only_is_told_of_and_served_from(tmp_path, tiny_folder, home):
    """The journal of starts lies there: a warning names it, and conversations are kept warm as ever."""
    with samovar(
        *("--model", str(tiny_folder("llama")), "--port", str(free_port())),
        folder=tmp_path,
        environment={"HOME": str(home), **NO_FOLDERS_OF_ITS_OWN},
        program=program_with(read_only(home)),
    ) as server:
        said = conversation(server.client(), server.model, TURNS, session="s")

    assert said[1][1] > 0
    assert warnings_of(server, "journal of starts cannot be written", str(home), "Read-only file system")
    assert not list(home.iterdir())


def test_the_demo_model_in_a_home_that_is_mounted_read_only_is_one_sentence(tmp_path, home):
    """It would have to be unpacked there: what could not be written, and no traceback."""
    server = Samovar(
        folder=tmp_path,
        environment={"HOME": str(home), **NO_FOLDERS_OF_ITS_OWN},
        program=program_with(read_only(home)),
    )

    assert server.wait_ended() == 1
    assert server.lines[-1].startswith("samovar: ")
    assert str(home) in server.lines[-1]
    assert "Read-only file system" in server.lines[-1]
    assert "Traceback" not in server.output


def test_temporary_folders_that_are_all_mounted_read_only_are_told_of(tmp_path, tiny_folder):
    """Fused kernels of the CPU have nowhere to be compiled: that is said, and replies are served without."""
    # One of its own, for in the machine's there are kernels that were compiled before.
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    places = [Path(place) for place in ("/tmp", "/var/tmp", "/dev/shm") if Path(place).is_dir()]
    with samovar(
        *("--model", str(tiny_folder("llama"))),
        folder=tmp_path,
        environment={"TMPDIR": str(temporary)},
        program=program_with(*map(read_only, [*places, temporary])),
    ) as server:
        said = conversation(server.client(), server.model, TURNS, session="s")

    assert said[1][1] > 0
    assert any("kernels are not fused" in line for line in server.lines_of_json()), server.output


def test_a_disk_that_is_full_from_the_start_costs_the_journal(tmp_path, tiny_folder):
    """A warning says that it could not be written and why; everything else is as ever."""
    disk = tmp_path / "disk"
    disk.mkdir()
    fill = f'head -c {ROOM_BYTES} /dev/zero > "{disk}/filler"'
    with samovar(
        *("--model", str(tiny_folder("llama")), "--port", str(free_port())),
        *("--state-folder", str(disk)),
        folder=tmp_path,
        program=program_with(small(disk, ROOM_BYTES), fill),
    ) as server:
        said = conversation(server.client(), server.model, TURNS, session="s")

    assert said[1][1] > 0
    assert warnings_of(server, "journal of starts cannot be written", "No space left on device")


def test_a_disk_that_fills_up_costs_log_lines_and_no_request(tmp_path, tiny_folder):
    """The log takes all the room there is; requests, probes and the stop are as ever."""
    disk, port = tmp_path / "disk", free_port()
    disk.mkdir()
    server = Samovar(
        *("--model", str(tiny_folder("llama")), "--port", str(port), "--telemetry-log-level", "debug"),
        *("--telemetry-log-file", str(disk / "samovar.log"), "--state-folder", str(disk / "state")),
        folder=tmp_path,
        program=program_with(small(disk, ROOM_BYTES)),
    )
    try:
        wait_ready_at(server, port)
        # Outside of the namespace the disk can be seen through the process that is in it.
        log = Path(f"/proc/{server.process.pid}/root") / (disk / "samovar.log").relative_to("/")
        sizes = [log.stat().st_size]
        while len(sizes) < 2 or sizes[-1] > sizes[-2]:
            said = conversation(server.client(), "llama", TURNS, session=str(len(sizes)))
            assert said[1][1] > 0
            sizes.append(log.stat().st_size)
        assert server.get("/readyz").status_code == 200
        assert server.stop() == 0
    finally:
        server.clients.close()
        server.process.kill()

    assert ROOM_BYTES / 2 < sizes[-1] <= ROOM_BYTES
