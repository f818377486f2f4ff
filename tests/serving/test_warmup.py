"""Next turns prepared in idle time, over HTTP, on a model whose state serves whole or not at all."""

from typing import Any

import httpx
import pytest

from app.vocabulary import Warmup
from benchmarks.warmup_bench import TALKS, own_tokens_of
from tests.support.process import labelled, samovar, total
from tests.support.tool_talk import ANSWER, CALLS
from tests.support.warm_talk import USER_TURNS, wait_for_warmups, warm_talk

SLACK_TOKENS = 16


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
    """A tiny hybrid model for a talk of that style."""
    root = tmp_path_factory.mktemp("warmup")

    def folder(style, family="lfm2"):
        path = root / f"{family}-{style}"
        return path if path.exists() else TALKS[style].model(path, family, style)

    return folder


@pytest.mark.parametrize("style", TALKS)
def test_a_warmed_turn_has_only_its_new_message_left_to_compute(tmp_path, model_folder, style):
    """With warm-up each turn computes its own text and at most 16 tokens; without, the last reply as well."""
    folder = model_folder(style)
    talk = TALKS[style]
    how: Any = {"own_tokens": own_tokens_of(folder), "tools": talk.tools, "max_tokens": talk.max_tokens}
    flags = ["--model", str(folder), *talk.flags]
    with samovar(*flags, folder=tmp_path) as server:
        warm = warm_talk(server, talk.messages, **how, last=talk.last)
        metrics = server.metrics()
    with samovar(*flags, "--no-snapshot-warmup", folder=tmp_path) as server:
        plain = warm_talk(server, talk.messages, **how, wait_for=Warmup.DISABLED)

    for turn, without in zip(warm[1:], plain[1:], strict=True):
        assert 0 < turn.left_tokens <= turn.own_tokens + SLACK_TOKENS
        assert without.left_tokens > without.own_tokens + SLACK_TOKENS
    if talk.tools:
        assert [turn.calls for turn in warm] == [*((call,) for call in CALLS), ()], (
            "and so each cue was heard"
        )
        assert warm[-1].reply.strip() == ANSWER
    assert [(turn.reply, turn.calls) for turn in warm] == [(turn.reply, turn.calls) for turn in plain]
    assert metrics[labelled("samovar_snapshot_lookups_total", outcome="hit")] == len(warm) - 1
    assert total(metrics, "samovar_snapshot_lookups_total") == len(warm)
    held = metrics[labelled("samovar_snapshot_entries", origin="boundary")]
    assert held == (1 if talk.last else 2), "the last turn's boundary, and the guess if there is one"
    assert metrics["samovar_warmup_tokens_total"] > 0
    assert metrics["samovar_requests_running"] == metrics["samovar_requests_waiting"] == 0


def test_a_dense_model_is_warmed_where_its_completion_does_not_serve(tmp_path, model_folder):
    """The template drops the think block that the reply was generated behind: the completion ends there."""
    folder = model_folder("thinking_dropped", "llama")
    own_tokens = own_tokens_of(folder)
    with samovar("--model", str(folder), folder=tmp_path) as server:
        turns = warm_talk(server, USER_TURNS, own_tokens=own_tokens)

    assert all(turn.left_tokens <= turn.own_tokens + SLACK_TOKENS for turn in turns[1:])


def test_a_stream_is_warmed_like_a_whole_reply(tmp_path, model_folder):
    """The reply is what the stream's chunks add up to."""
    folder = model_folder("chatml")
    question = {"role": "user", "content": "Tell me about the harbour, and about the ships in it."}
    with samovar("--model", str(folder), folder=tmp_path) as server:
        messages: Any = [question]
        said: Any = server.client().chat.completions.create(
            model=server.model, messages=messages, temperature=0, max_tokens=40, stream=True
        )
        reply = "".join(chunk.choices[0].delta.content or "" for chunk in said)
        wait_for_warmups(server, 1)
        again = [question, {"role": "assistant", "content": reply}, {"role": "user", "content": "And?"}]
        answer = httpx.post(
            f"{server.url}/v1/chat/completions", json={"messages": again, "max_tokens": 1}, timeout=60
        ).json()

    usage = answer["usage"]
    left = usage["prompt_tokens"] - usage["prompt_tokens_details"]["cached_tokens"]
    assert left <= own_tokens_of(folder)(again[-1]) + SLACK_TOKENS
