"""Which replies are followed by a warm-up, and what the engine is given for it."""

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from app.api.reasoning_echo import ReasoningEcho
from app.api.reply import Reply
from app.api.settling import Settling
from app.api.warmup import Turn, warm_up
from app.chat import ChatPrompt, ToolUse
from app.events import TraceRef, WarmupEnded
from app.scheduler.job import Boundary, Delta, Generated, Job
from app.snapshots.entry import pack
from app.vocabulary import FinishReason, Origin, Warmup
from tests.support.jobs import make_job
from tests.support.loops import past_timers
from tests.support.scripted_engine import ANSWER, CALL, END_OF_TURN, THINK, CharacterModel, CharacterText

TRACE = TraceRef(1, 2, sampled=True)
TOOLS = ToolUse(tools=({"type": "function", "function": {"name": "now"}},))


def turn_of(model: CharacterModel, said: str, *, finish: FinishReason | None, **job: Any) -> Turn:
    chat = ChatPrompt(messages=({"role": "user", "content": "Hello"},), template_kwargs={})
    prompt = model.prepare(chat, session="s", tenant="")
    reply = Reply(CharacterText((), tools=TOOLS), id="j")
    text = said + END_OF_TURN
    deltas: list[Delta] = [Generated(ord(each), None, None) for each in text[:-1]]
    reply.read([*deltas, Generated(ord(text[-1]), None, finish)])
    return Turn(
        ("", "s"), chat, prompt, make_job(prompt.tokens, id="j", session="s", trace=TRACE, **job), reply
    )


def outcome_of(turn: Turn, model: CharacterModel, *, enabled: bool = True) -> tuple[list[Job], list[Any]]:
    """What the engine was given, and what was told, once the pause is over and the prompt thread is done."""
    return asyncio.run(_outcome_of(turn, model, enabled=enabled))


async def _outcome_of(turn: Turn, model: CharacterModel, *, enabled: bool) -> tuple[list[Job], list[Any]]:
    jobs: list[Job] = []
    events: list[Any] = []
    services: Any = SimpleNamespace(
        warmup=enabled,
        settling=Settling(0),
        reasoning=ReasoningEcho(0),
        engine=SimpleNamespace(warm_up=jobs.append),
        emit=events.append,
        clock=lambda: 5.0,
    )
    with contextlib.closing(_Closing()) as thread:
        warm_up(turn, model, services, thread.executor)
        await past_timers()
    return jobs, events


class _Closing:
    def __init__(self) -> None:
        self.executor = ThreadPoolExecutor(max_workers=1)

    def close(self) -> None:
        self.executor.shutdown(wait=True)


@pytest.mark.parametrize("finish", [FinishReason.STOP, FinishReason.LENGTH])
def test_a_reply_is_followed_by_a_warmup_of_its_conversation(finish: FinishReason) -> None:
    """Same bucket, session and trace; one boundary, before the last token; and no reasoning in it."""
    model = CharacterModel()
    turn = turn_of(model, f"{THINK}hm{ANSWER}Hello", finish=finish)

    (job,), events = outcome_of(turn, model)

    assert events == []
    assert "".join(map(chr, job.tokens)) == "user: Hello\nassistant: Hello\nu"
    assert job.packed == pack(job.tokens)
    assert job.boundaries == (Boundary(Origin.BOUNDARY, len(job.tokens) - 1),)
    assert (job.bucket, job.session, job.trace) == (turn.job.bucket, turn.job.session, TRACE)
    assert (job.id, job.max_tokens) == ("warmup-j", 1)


def test_a_reply_that_only_calls_is_followed_by_one_as_well() -> None:
    """The conversation is told with the calls as the client got them, ids and arguments."""
    model = CharacterModel()
    turn = turn_of(model, f'{CALL}now {{"at": 1}}', finish=FinishReason.STOP)

    (job,), events = outcome_of(turn, model)

    (call,) = turn.reply.tool_calls
    assert events == []
    assert "".join(map(chr, job.tokens)).endswith(f'assistant: {CALL}{call.id} now {{"at": 1}}\nu')


@pytest.mark.parametrize(
    ("said", "finish", "options", "enabled", "outcome"),
    [
        ("Hello", FinishReason.STOP, {}, False, Warmup.DISABLED),
        ("Hello", FinishReason.STOP, {"use_snapshots": False}, True, Warmup.OPTED_OUT),
        ("Hello", None, {}, True, Warmup.UNFINISHED),
        (" \n", FinishReason.STOP, {}, True, Warmup.BLANK_REPLY),
        (f"{THINK}hm, but no answer", FinishReason.LENGTH, {}, True, Warmup.BLANK_REPLY),
    ],
)
def test_a_reply_that_is_followed_by_none_says_why(
    said: str, finish: FinishReason | None, options: dict[str, Any], enabled: bool, outcome: Warmup
) -> None:
    """The engine hears nothing, and one outcome is counted."""
    model = CharacterModel()
    turn = turn_of(model, said, finish=finish, **options)

    assert outcome_of(turn, model, enabled=enabled) == ([], [WarmupEnded(outcome, TRACE, None, 5.0)])


def test_what_the_model_says_against_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reasons that only the template knows are counted like the others."""
    model = CharacterModel()
    turn = turn_of(model, "Hello", finish=FinishReason.STOP)
    monkeypatch.setattr(model, "next_turn", lambda *_arguments: Warmup.DIVERGED)

    assert outcome_of(turn, model) == ([], [WarmupEnded(Warmup.DIVERGED, TRACE, None, 5.0)])


def test_a_failure_on_the_prompt_thread_is_not_lost(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is counted and logged, because nobody waits for it."""
    model = CharacterModel()
    turn = turn_of(model, "Hello", finish=FinishReason.STOP)

    def broken(*_arguments: object) -> tuple[int, ...]:
        raise ZeroDivisionError("a template of the future")

    monkeypatch.setattr(model, "next_turn", broken)

    assert outcome_of(turn, model) == ([], [WarmupEnded(Warmup.FAILED, TRACE, None, 5.0)])
    assert "a template of the future" in caplog.text
