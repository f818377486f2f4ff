"""The journal of starts: what counts, for how long a start is held back, and what a broken file does."""

import json
import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from app.supervision.start_journal import (
    CrashLoop,
    StartJournal,
    held_seconds,
    read_starts,
    recent,
    write_starts,
)

RULE = CrashLoop(starts=3, window_seconds=100.0)


class WallClock:
    """Unix seconds that a test sets."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Machine:
    """Processes that share one journal, one after the other."""

    def __init__(self, folder):
        self.file = folder / "state" / "starts.json"
        self.clock = WallClock()

    def process(self):
        """What a new process knows of the starts before."""
        return StartJournal(self.file, RULE, unix_seconds=self.clock)

    def crash(self, times=1):
        """Starts that are killed, ten seconds apart."""
        for _ in range(times):
            journal = self.process()
            assert journal.held_seconds() == 0
            journal.begin()
            self.clock.now += 10


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_starts_that_are_killed_make_a_crash_loop(machine):
    """The limit is reached, and from then on a start is held until the window after the last is over."""
    machine.crash(times=3)
    journal = machine.process()

    assert journal.held_seconds() == 90
    assert journal.recent() == 3
    machine.clock.now += 89
    assert journal.held_seconds() == 1
    machine.clock.now += 1
    assert journal.held_seconds() == 0
    assert journal.recent() == 0


def test_one_start_fewer_is_no_crash_loop(machine):
    """Below the limit nothing is held back, and the next start counts as well."""
    machine.crash(times=2)
    journal = machine.process()

    assert journal.held_seconds() == 0
    journal.begin()
    assert journal.recent() == 3


def test_a_held_start_does_not_hold_back_longer(machine):
    """Processes that only wait are killed without a trace: they have loaded nothing."""
    machine.crash(times=3)
    for _ in range(5):
        assert machine.process().held_seconds() > 0
        machine.clock.now += 10

    assert machine.process().held_seconds() == 40


def test_starts_far_apart_are_no_crash_loop(machine):
    """A server that dies once a day is started again each time."""
    for _ in range(10):
        machine.crash()
        machine.clock.now += 100

    assert machine.process().held_seconds() == 0
    assert len(read_starts(machine.file)) == 2


def test_a_clean_stop_forgives_everything(machine):
    """Somebody stopped the server, so somebody has looked."""
    machine.crash(times=2)
    journal = machine.process()
    journal.begin()
    journal.clear()

    assert journal.recent() == 0
    assert machine.process().held_seconds() == 0
    assert not machine.file.exists()


def test_a_refused_start_does_not_count_and_forgives_nothing(machine):
    """A wrong path leaves no memory behind; the crashes before it stay what they were."""
    machine.crash(times=2)
    for _ in range(5):
        journal = machine.process()
        assert journal.held_seconds() == 0
        journal.begin()
        journal.refuse()
        machine.clock.now += 1

    assert machine.process().held_seconds() == 0
    assert len(read_starts(machine.file)) == 2


def test_clearing_the_file_frees_a_held_start(machine):
    """What another process removes is seen at the next look."""
    machine.crash(times=3)
    journal = machine.process()
    assert journal.held_seconds() > 0

    machine.process().clear()

    assert journal.held_seconds() == 0


def test_a_clock_that_was_set_back_holds_nothing_for_long(machine):
    """Starts of the future are left out, or a year's error would hold the server for a year."""
    machine.crash(times=3)
    machine.clock.now -= 10_000

    assert machine.process().held_seconds() == 0


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b'{"format": 2, "unix_seconds": []}',
        b'{"format": 1}',
        b'{"format": 1, "unix_seconds": [true]}',
        b'{"format": 1, "unix_seconds": ["1"]}',
        b'{"format": 1, "unix_seconds": [' + b"1," * 40_000 + b"1]}",
        b"[" * 60_000,
        b'{"format": 1, "unix_seconds": [1' + b"0" * 400 + b"]}",
    ],
    ids=range(11),
)
def test_a_damaged_journal_is_begun_anew(machine, content):
    """Whatever is in the file, the start goes on with one warning, and the next one has a journal again."""
    machine.file.parent.mkdir()
    machine.file.write_bytes(content)
    journal = machine.process()

    with capture_logs() as lines:
        assert journal.held_seconds() == 0
        assert journal.held_seconds() == 0
        journal.begin()

    assert [line["event"] for line in lines] == ["the journal of starts is damaged, and begun anew"]
    assert read_starts(machine.file) == (machine.clock.now,)


def test_a_folder_that_cannot_be_written_is_a_warning(tmp_path):
    """The server starts without a journal; it counts its own start all the same."""
    (tmp_path / "file").write_text("in the way")
    journal = StartJournal(tmp_path / "file" / "starts.json", RULE, unix_seconds=WallClock())

    with capture_logs() as lines:
        assert journal.held_seconds() == 0
        journal.begin()
        journal.refuse()
        journal.clear()

    assert len(lines) == 1
    assert lines[0]["log_level"] == "warning"
    assert "crash loops go unnoticed" in lines[0]["event"]


def test_the_file_is_bounded(tmp_path):
    """However often it starts within the window, the journal keeps no more than it needs."""
    clock = WallClock()
    file = tmp_path / "starts.json"
    for _ in range(200):
        clock.now += 0.1
        journal = StartJournal(file, RULE, unix_seconds=clock)
        journal.held_seconds()
        journal.begin()

    assert len(read_starts(file)) <= RULE.starts + 101


def test_a_write_that_fails_leaves_the_old_journal_and_nothing_beside(tmp_path, monkeypatch):
    """A disk that fills up in the middle of a write costs that write only."""
    file = tmp_path / "starts.json"
    write_starts(file, [1.0])

    def full(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_starts(file, [1.0, 2.0])

    assert read_starts(file) == (1.0,)
    assert list(tmp_path.iterdir()) == [file]


def test_the_folder_is_the_owners_alone(tmp_path):
    """A folder that is made for the journal is nobody else's business."""
    file = tmp_path / "state" / "starts.json"
    write_starts(file, [1.0])

    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert json.loads(file.read_text()) == {"format": 1, "unix_seconds": [1.0]}


@given(
    starts=st.lists(st.floats(0, 1e6), max_size=20),
    limit=st.integers(1, 10),
    window=st.floats(1, 1e5),
    now=st.floats(0, 1e6),
)
def test_the_wait_ends_within_the_window(starts, limit, window, now):
    """It follows the last starts alone, is never longer than the window, and is over when that is over."""
    rule = CrashLoop(limit, window)
    wait = held_seconds(starts, rule, now)
    passed = sorted(start for start in starts if start <= now)
    last = passed[-limit:]

    loop = len(last) == limit and last[-1] - last[0] < window
    assert wait == (max(0, window - (now - last[-1])) if loop and now - last[-1] < window else 0)
    assert wait <= window
    assert all(now - window < start <= now for start in recent(starts, rule, now))
    # Such a sum is rounded, at 1e6 seconds to about 1e-10.
    assert held_seconds(starts, rule, max(starts, default=now) + window + 1e-6) == 0
