"""`samovar chat`, as a person uses it at a terminal and as a script uses it in a pipe."""

import asyncio
import contextlib
import os
import pty
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from app.auth.keyring import Keyring
from app.errors import RequestError
from app.scheduler.job import Job
from app.vocabulary import Miss
from tests.support.keys import KEYS, SECRETS
from tests.support.process import clean_environment
from tests.support.scripted_engine import ANSWER, THINK, WAIT_SECONDS
from tests.support.serving import serving

START_SECONDS = 30.0
"""The most a new interpreter may take until it asks for a line, beside everything else that runs."""

CONTROL_C, CONTROL_D, UP = "\x03", "\x04", "\x1b[A"


def command(url: str, *flags: str) -> list[str]:
    return [sys.executable, "-m", "app", "chat", "--url", url, *flags]


def environment(**more: str) -> dict[str, str]:
    return clean_environment(PYTHONPATH=str(Path.cwd()), TERM="xterm", **more)


def told(job: Job) -> str:
    """The conversation that a job was given."""
    return "".join(map(chr, job.tokens))


async def piped(url: str, text: str, *flags: str, **more: str) -> tuple[int | None, str, str]:
    """Exit code, standard output and standard error of a chat that reads `text`."""
    process = await asyncio.create_subprocess_exec(
        *command(url, *flags),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment(**more),
    )
    out, err = await asyncio.wait_for(process.communicate(text.encode()), START_SECONDS)
    return process.returncode, out.decode(), err.decode()


class Terminal:
    """A person at a terminal: sees what is written, and types."""

    def __init__(self, descriptor: int, process: asyncio.subprocess.Process) -> None:
        self._descriptor = descriptor
        self._process = process
        self._seen = ""
        self._news = asyncio.Event()
        asyncio.get_running_loop().add_reader(descriptor, self._read)

    def _read(self) -> None:
        try:
            self._seen += os.read(self._descriptor, 4096).decode(errors="replace")
        except OSError:
            # How Linux says that nobody has the other end open.
            asyncio.get_running_loop().remove_reader(self._descriptor)
        self._news.set()

    async def until(self, text: str) -> str:
        """What is written up to and with `text`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(START_SECONDS):
                while text not in self._seen:
                    self._news.clear()
                    await self._news.wait()
        assert text in self._seen
        before, found, self._seen = self._seen.partition(text)
        return before + found

    def type(self, text: str) -> None:
        os.write(self._descriptor, text.encode())

    async def ended(self) -> int:
        """The exit code, once it has ended."""
        return await asyncio.wait_for(self._process.wait(), WAIT_SECONDS)


@contextlib.asynccontextmanager
async def at_terminal(url: str, *flags: str) -> AsyncIterator[Terminal]:
    """A chat at a terminal of its own, that has asked for the first line."""
    ours, its = pty.openpty()
    # Its own terminal, so that Ctrl-C is a signal to it as it is to whatever a person starts.
    # And listened to, also where these tests run in a shell's background, which ignores it for all it starts.
    own_terminal = ["env", "--default-signal=INT", "setsid", "--ctty", "--wait"]
    process = await asyncio.create_subprocess_exec(
        *own_terminal, *command(url, *flags), stdin=its, stdout=its, stderr=its, env=environment()
    )
    os.close(its)
    terminal = Terminal(ours, process)
    try:
        await terminal.until("> ")
        yield terminal
    finally:
        asyncio.get_running_loop().remove_reader(ours)
        os.close(ours)
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_a_talk_goes_on_and_each_turn_says_what_was_cached() -> None:
    """The second turn carries the first, in one session, and says how many tokens were cached."""
    async with serving() as served, at_terminal(served.url, "--system", "Be brief.") as terminal:
        terminal.type("Hello\n")
        first = await served.engine.answer("Hi there")
        assert "Hi there" in await terminal.until(
            "[30 prompt tokens, 0 of them cached (miss: empty); 9 tokens of reply]"
        )
        await terminal.until("> ")
        terminal.type("And again\n")
        second = await served.engine.answer("Sure", cached_tokens=29, miss=None)
        await terminal.until("29 of them cached (hit); 5 tokens of reply]")
        terminal.type("/exit\n")
        assert await terminal.ended() == 0

        assert told(first) == "system: Be brief.\nuser: Hello\n"
        assert told(second) == told(first) + "assistant: Hi there\nuser: And again\n"
        assert first.session == second.session


async def test_a_new_conversation_knows_nothing_of_the_old_one() -> None:
    """/reset keeps the system prompt and takes another session; a line of before comes back with arrow-up."""
    async with serving() as served, at_terminal(served.url, "--system", "Be brief.") as terminal:
        terminal.type("Hello\n")
        first = await served.engine.answer("Hi")
        await terminal.until("tokens of reply]")
        await terminal.until("> ")
        terminal.type("/reset\n")
        await terminal.until("a new conversation")
        await terminal.until("> ")
        terminal.type(f"{UP}{UP}\n")
        second = await served.engine.answer("Hi")
        await terminal.until("> ")
        terminal.type(CONTROL_D)
        assert await terminal.ended() == 0

        assert told(second) == told(first)
        assert first.session != second.session


async def test_control_c_ends_a_reply_and_not_the_talk() -> None:
    """The server stops generating; what was written of the reply stays part of the talk."""
    async with serving(keepalive_seconds=0.05) as served, at_terminal(served.url) as terminal:
        terminal.type("Count\n")
        first = await served.engine.next_job()
        await served.engine.start(first)
        await served.engine.say(first, "one two")
        await terminal.until("one two")
        terminal.type(CONTROL_C)
        await served.engine.until_cancelled(first)
        await terminal.until("(interrupted)")
        await terminal.until("> ")
        terminal.type("Go on\n")
        second = await served.engine.answer("three")
        assert told(second) == "user: Count\nassistant: one two\nuser: Go on\n"


async def test_a_failed_turn_is_told_and_taken_back() -> None:
    """The error is the server's own sentence; the message that failed is not sent again with the next one."""
    async with serving() as served, at_terminal(served.url) as terminal:
        served.engine.refusal = RequestError("the queue is full", status=429)
        terminal.type("First\n")
        await terminal.until("the queue is full")
        await terminal.until("> ")
        served.engine.refusal = None
        terminal.type("Second\n")
        assert told(await served.engine.answer("Yes")) == "user: Second\n"


async def test_a_reply_cannot_touch_the_terminal() -> None:
    """Control characters of a reply are left out; what the model thinks is told apart by its look."""
    async with serving() as served, at_terminal(served.url) as terminal:
        terminal.type("Paint\n")
        await served.engine.answer(f"{THINK}hm{ANSWER}\x1b[31mred\x1b]0;title\x07 [bold]x")
        shown = await terminal.until("tokens of reply]")
        assert "[31mred]0;title [bold]x" in shown
        assert "\x1b[31m" not in shown
        assert "\x1b[2;3mhm" in shown


async def test_through_a_pipe_comes_the_reply_and_nothing_else() -> None:
    """All that is read is one message, lines included; the numbers go to standard error."""
    async with serving() as served:
        asking = asyncio.ensure_future(piped(served.url, "Two\nlines\n", "--system", "Be brief."))
        job = await served.engine.answer("An answer", miss=Miss.NO_CANDIDATE)

        code, out, err = await asking
        assert (code, out) == (0, "An answer\n")
        assert err == "[35 prompt tokens, 0 of them cached (miss: no_candidate); 10 tokens of reply]\n"
        assert told(job) == "system: Be brief.\nuser: Two\nlines\n\n"


async def test_a_server_with_keys_is_asked_with_one() -> None:
    """Without a key the server says what is missing; with it in the environment the chat works."""
    async with serving(keyring=Keyring(KEYS)) as served:
        code, out, err = await piped(served.url, "Hello")
        assert (code, out) == (1, "")
        assert "needs an API key" in err
        asking = asyncio.ensure_future(piped(served.url, "Hello", SAMOVAR_AUTH__KEY=SECRETS["ann"]))
        await served.engine.answer("Hi")
        assert (await asking)[:2] == (0, "Hi\n")


async def test_no_server_is_one_sentence() -> None:
    """And an exit code that scripts see."""
    code, out, err = await piped("http://127.0.0.1:9", "Hello")
    assert (code, out) == (1, "")
    assert err.startswith("samovar: no server answers at http://127.0.0.1:9: ")
    assert err.count("\n") == 1
