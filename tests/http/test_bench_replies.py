"""What `samovar bench` makes of a server's answers, over real HTTP, with an engine that a test scripts."""

import asyncio
import itertools
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from app.auth.keyring import Keyring
from app.bench.gaps import Meeting, meet
from app.bench.models import address, find_model
from app.bench.replies import Server, Usage, connected
from app.bench.speed import Load, round_of
from app.bench.talk import talk
from app.bench.texts import question
from app.errors import SamovarError
from app.scheduler.job import Failed
from app.vocabulary import FinishReason
from tests.support.clock import ManualClock
from tests.support.keys import KEYS, SECRETS
from tests.support.process import clean_environment
from tests.support.scripted_engine import ANSWER, THINK
from tests.support.serving import Serving, serving


def server_of(served: Serving) -> Server:
    return Server(served.url, "scripted")


async def test_a_reply_is_timed_at_its_first_piece_and_counted_as_the_server_counts() -> None:
    """Thinking is a first piece, content is what goes back, and cached tokens are told."""
    clock = ManualClock()
    async with serving() as served, connected(server_of(served), clock) as connection:
        asking = asyncio.ensure_future(connection.ask(question("a", 3), max_tokens=9, fields={}))
        job = await served.engine.next_job()
        clock.advance(2)
        await served.engine.start(job, cached_tokens=5, miss=None)
        await served.engine.say(job, f"{THINK}hm{ANSWER}yes", finish=FinishReason.LENGTH)
        reply = await asking

    assert reply.first_token_seconds == 2
    assert reply.content == "yes"
    assert reply.usage == Usage(len(job.tokens), reply.tokens, 5)
    assert reply.pieces > 0


async def test_a_server_that_closes_what_it_let_its_client_keep_is_asked_again() -> None:
    """As llama.cpp's does; one that answers nobody is not asked for ever."""
    answered: list[int] = []
    event = b'data: {"choices":[{"delta":{"content":"tea"}}]}\n\ndata: [DONE]\n\n'
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(event)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One answer a connection, and none after the second."""
        await _read_request(reader)
        if len(answered) < 2:
            answered.append(1)
            writer.write(head + event)
            await writer.drain()
            await _read_request(reader)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        async with connected(Server(f"http://127.0.0.1:{port}", "m"), ManualClock()) as connection:
            for _ in range(2):
                assert (await connection.ask(question("a", 3), max_tokens=9, fields={})).content == "tea"
            with pytest.raises(httpx.RemoteProtocolError):
                await connection.ask(question("a", 3), max_tokens=9, fields={})


async def _read_request(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    (length,) = re.findall(rb"content-length: (\d+)", head.lower())
    await reader.readexactly(int(length))


async def test_a_conversation_sends_back_what_it_got() -> None:
    """Each turn holds the replies before it, and tells what of it was computed."""
    async with serving() as served, connected(server_of(served), ManualClock()) as connection:
        talking = asyncio.ensure_future(
            talk(
                connection,
                [{"role": "user", "content": "one"}],
                [{"role": "user", "content": "two"}],
                max_tokens=9,
                think_seconds=0,
                fields={},
            )
        )
        await served.engine.answer("first")
        second = await served.engine.answer("second", cached_tokens=4, miss=None)
        turns = await talking

    said = "".join(map(chr, second.tokens))
    assert said.index("one") < said.index("first") < said.index("two")
    assert [turn.cached_tokens for turn in turns] == [0, 4]
    assert turns[1].computed_tokens == len(second.tokens) - 4


async def test_a_round_is_as_many_replies_as_there_are_clients_and_requests() -> None:
    """All of a round's clients ask at once, and its rate is of all their tokens."""
    clock = ManualClock()
    async with serving() as served, connected(server_of(served), clock) as connection:
        asking = asyncio.ensure_future(
            round_of(connection, Load(2, 1, 3, 9), map(str, itertools.count()), fields={})
        )
        jobs = [await served.engine.next_job() for _ in range(2)]
        clock.advance(4)
        for job in jobs:
            await served.engine.start(job)
            await served.engine.say(job, "tea", finish=FinishReason.LENGTH)
        measured = await asking

    assert list(measured.first_token_seconds) == [4, 4]
    assert measured.tokens_per_second == measured.tokens / 4


async def test_a_reply_that_fails_in_its_midst_is_no_reply() -> None:
    """The server's own words are what is said, and nothing is measured."""
    async with serving() as served, connected(server_of(served), ManualClock()) as connection:
        asking = asyncio.ensure_future(connection.ask(question("a", 3), max_tokens=9, fields={}))
        job = await served.engine.next_job()
        await served.engine.start(job)
        await served.engine.say(job, "so far")
        await served.engine.tell(job, Failed("the engine broke", 500))
        with pytest.raises(SamovarError, match=r"fails in the midst of a reply: .*the engine broke"):
            await asking


async def test_a_refusal_is_the_servers_own_sentence() -> None:
    """Status and message, on one line."""
    async with serving() as served, connected(server_of(served), ManualClock()) as connection:
        with pytest.raises(SamovarError, match=r"/v1/chat/completions answers 400: .*max_tokens"):
            await connection.ask(question("a", 3), max_tokens=-1, fields={})


async def test_streams_that_say_nothing_cannot_be_measured() -> None:
    """There are no gaps without pieces, which is said rather than waited for."""
    meeting = Meeting(streams=1, flowing=2, long_words=5, max_tokens=9)
    async with serving() as served, connected(server_of(served), ManualClock()) as connection:
        meeting_it = asyncio.ensure_future(meet(connection, meeting, map(str, itertools.count()), fields={}))
        await served.engine.answer("")
        with pytest.raises(SamovarError, match="replies without a word"):
            await meeting_it


async def test_a_model_is_the_only_one_or_the_one_that_was_named() -> None:
    """By its name or an alias; another is refused with those there are."""
    async with serving() as served:

        def found(asked: str) -> str:
            return find_model(served.url, asked, key="").model

        assert await asyncio.to_thread(found, "") == "scripted"
        assert await asyncio.to_thread(found, "scripted") == "scripted"
        assert await asyncio.to_thread(found, "owner/scripted-hub-name") == "owner/scripted-hub-name"
        with pytest.raises(SamovarError, match="has no model 'other'; it has scripted"):
            await asyncio.to_thread(found, "other")


@pytest.mark.parametrize(
    "written", ["http://host:1", "http://host:1/", "http://host:1/v1", "http://host:1/v1/"]
)
def test_an_address_may_end_as_clients_are_told_it(written: str) -> None:
    """With the protocol's prefix or without."""
    assert address(written) == "http://host:1"


async def test_the_command_sends_a_key_and_says_what_a_server_says_without_one() -> None:
    """Of the flag or of the environment; a wrong one is refused in one line, with exit code 1."""

    async def ran(*flags: str, **environment: str) -> tuple[int | None, str]:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "app", "bench", served.url, "--model", "other", *flags),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=clean_environment(PYTHONPATH=str(Path.cwd()), **environment),
        )
        _, error = await process.communicate()
        return process.returncode, error.decode()

    async with serving(keyring=Keyring(KEYS)) as served:
        without = await ran()
        wrong = await ran("--key", "sk-of-nobody-0123456789")
        by_flag = await ran("--key", SECRETS["ann"])
        by_environment = await ran(SAMOVAR_AUTH__KEY=SECRETS["ann"])

    for code, error in (without, wrong):
        assert code == 1
        assert "answers 401: " in error
        assert len(error.splitlines()) == 1
    # The key was taken: what is wrong now is the model.
    for code, error in (by_flag, by_environment):
        assert code == 1
        assert f"samovar: {served.url} has no model 'other'; it has scripted\n" == error
