"""The gate before the load: closed in a crash loop, opened by time or by a clearing."""

import asyncio
import time

import pytest
from structlog.testing import capture_logs

from app.errors import ConfigurationError, ModelError, SamovarError, StartError
from app.supervision import start_gate
from app.supervision.start_gate import StartGate
from app.supervision.start_journal import CrashLoop, StartJournal, read_starts, write_starts


def make_gate(folder, *, starts=2, window_seconds=3600.0):
    journal = StartJournal(folder / "starts.json", CrashLoop(starts, window_seconds), unix_seconds=time.time)
    return StartGate(journal), journal


def crash(folder, times):
    write_starts(folder / "starts.json", [time.time() - n for n in range(times)])


async def test_without_a_journal_the_gate_is_open():
    """Switched off, nothing is held back, counted or written."""
    gate = StartGate(None)

    await gate.opened()
    gate.begin()
    gate.ended(None)

    assert (gate.held, gate.recent(), gate.reason) == (False, 0, "")


async def test_a_first_start_is_not_held(tmp_path):
    """It goes through at once and is in the journal until it has ended well."""
    gate, journal = make_gate(tmp_path)

    await gate.opened()
    gate.begin()

    assert not gate.held
    assert gate.recent() == len(read_starts(journal.file)) == 1


async def test_a_crash_loop_holds_says_so_once_and_ends_when_cleared(tmp_path, monkeypatch):
    """While it is held the reason is there for probes; one line is logged; a clearing lets it go on."""
    monkeypatch.setattr(start_gate, "POLL_SECONDS", 0.01)
    crash(tmp_path, times=2)
    gate, journal = make_gate(tmp_path)

    with capture_logs() as lines:
        waiting = asyncio.create_task(gate.opened())
        # Several looks at the journal, none of which is news.
        for _ in range(5):
            await asyncio.sleep(0.01)
        assert gate.held
        assert not waiting.done()
        assert gate.reason.startswith("crash loop: 2 starts within 3600 seconds did not end well")
        journal.file.unlink()
        async with asyncio.timeout(30):
            await waiting

    assert (gate.held, gate.reason) == (False, "")
    assert [line["log_level"] for line in lines] == ["error", "info"]


async def test_a_crash_loop_ends_with_its_window(tmp_path):
    """Nobody has to come: after the window the model is tried again."""
    crash(tmp_path, times=1)
    gate, _ = make_gate(tmp_path, starts=1, window_seconds=0.2)

    async with asyncio.timeout(30):
        await gate.opened()

    assert not gate.held
    assert gate.recent() == 0


@pytest.mark.parametrize("refusal", [ConfigurationError, ModelError, StartError])
async def test_a_refusal_is_no_crash(tmp_path, refusal):
    """What said what to change is taken out of the journal."""
    gate, journal = make_gate(tmp_path)
    await gate.opened()
    gate.begin()

    gate.ended(refusal("the folder does not exist"))

    assert read_starts(journal.file) == ()


@pytest.mark.parametrize("crash", [SamovarError("the engine failed"), MemoryError()])
async def test_a_failure_counts(tmp_path, crash):
    """An engine that dies at its work is a crash, however politely the process ends."""
    gate, journal = make_gate(tmp_path)
    await gate.opened()
    gate.begin()

    gate.ended(crash)

    assert len(read_starts(journal.file)) == 1


async def test_a_stop_while_held_clears_the_journal(tmp_path):
    """Who stops a held server means to start it afresh."""
    crash(tmp_path, times=2)
    gate, journal = make_gate(tmp_path)
    waiting = asyncio.create_task(gate.opened())
    await asyncio.sleep(0)
    waiting.cancel()

    gate.ended(None)

    assert not journal.file.exists()
