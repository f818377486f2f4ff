"""The operator is told what capacity would be right, and it is."""

import json

import pytest

from tests.support.process import Samovar, labelled, samovar, total
from tests.support.talking import END_OF_TURN

SESSIONS = [f"session {number}" for number in range(5)]
TURNS = 3
MEMORY_FLAGS = ("--snapshot-min-prefix-tokens", "4", "--no-snapshot-warmup")
"""Whether a guess is stored in time is chance."""


def talk_in_turns(server: Samovar) -> list[int]:
    """Five conversations of three turns each, every one in its turn; cached tokens of all but the first.

    Whatever the last one leaves behind is stored by then.
    """
    client = server.client()
    histories: dict[str, list[dict[str, str]]] = {session: [] for session in SESSIONS}
    cached = []
    for turn in range(TURNS):
        for session, messages in histories.items():
            messages.append({"role": "user", "content": f"{session} says {turn}, at some length."})
            answer = client.chat.completions.create(
                model=server.model,
                messages=messages,  # type: ignore[arg-type]
                temperature=0,
                max_tokens=8,
                extra_body={"prompt_cache_key": session},
            )
            messages.append({"role": "assistant", "content": answer.choices[0].message.content or ""})
            usage = answer.usage
            assert usage is not None
            assert usage.prompt_tokens_details is not None
            if turn:
                cached.append(usage.prompt_tokens_details.cached_tokens or 0)
    # A job begins once the one before it is stored; this one leaves nothing itself.
    client.completions.create(
        model=server.model, prompt="!", max_tokens=1, extra_body={"cache_prompt": False}
    )
    return cached


@pytest.mark.parametrize(("family", "small"), [("qwen3_next", 350_000), ("llama", 190_000)])
def test_the_recommended_capacity_ends_the_thrash_that_it_was_measured_in(
    tmp_path, tiny_folder, family, small
):
    """Five conversations in the room of two push each other out; with what is then recommended none does."""
    model = ("--model", str(tiny_folder(family)), "--no-snapshot-system-anchors", *MEMORY_FLAGS)
    with samovar(*model, "--snapshot-capacity-bytes", str(small), folder=tmp_path) as server:
        thrashing = talk_in_turns(server)
        stats, metrics = server.stats(), server.metrics()
    assert 0 in thrashing
    assert stats["snapshot_evictions_lru"] > 0
    assert total(metrics, "samovar_snapshot_ghost_hits_total") > 0
    assert metrics["samovar_snapshot_capacity_bytes"] == small, "an explicit value was overridden"
    recommended = stats["snapshot_recommended_bytes"]
    assert recommended == metrics["samovar_snapshot_recommended_bytes"] > 2 * small
    assert stats["snapshot_recommendation"]["basis"] == "measured"
    assert stats["snapshot_recommendation"]["fits"] is True

    with samovar(*model, "--snapshot-capacity-bytes", str(recommended), folder=tmp_path) as server:
        warm = talk_in_turns(server)
        stats, metrics = server.stats(), server.metrics()
    assert min(warm) > 0
    assert stats["snapshot_evictions_lru"] == 0
    assert stats["snapshot_hits"] == len(warm)
    assert total(metrics, "samovar_snapshot_ghost_hits_total") == 0
    assert stats["snapshot_recommended_bytes"] <= recommended * 1.05, "it asks for more than it asked for"


def test_a_capacity_that_is_left_to_the_server_follows_the_model_and_the_demand(tmp_path, tiny_folder):
    """It begins with what the model's state weighs at its context, and grows before anything is evicted."""
    model = ("--model", str(tiny_folder("qwen3_next")), "--context-length", "256", *MEMORY_FLAGS)
    with samovar(*model, folder=tmp_path) as server:
        start = server.stats()
        assert start["snapshot_recommendation"]["basis"] == "model"
        assert start["snapshot_capacity_automatic"] is True
        assert start["snapshot_capacity_bytes"] == start["snapshot_recommended_bytes"]
        assert start["snapshot_recommendation"]["sessions"] == 8
        assert start["snapshot_limits_from"]["capacity_bytes"] == "default"
        client = server.client()
        for number in range(24):
            client.chat.completions.create(
                model=server.model,
                messages=[{"role": "user", "content": f"Number {number}: " + "words and more words. " * 6}],
                max_tokens=2,
                extra_body={"prompt_cache_key": f"s{number}"},
            )
        stats = server.stats()
    assert stats["snapshot_evictions_lru"] == 0
    assert stats["snapshot_entries"] > 8
    assert (
        stats["snapshot_capacity_bytes"]
        == stats["snapshot_recommended_bytes"]
        > start["snapshot_capacity_bytes"]
    )
    assert stats["snapshot_recommendation"]["sessions"] == 24


@pytest.fixture(scope="module")
def cramped(tmp_path_factory, tiny_folder):
    """A server with next to no room for snapshots, for requests, and for requests that wait."""
    with samovar(
        *("--model", str(tiny_folder("llama")), "--snapshot-capacity-bytes", "10kB"),
        *("--scheduler-max-running", "3", "--scheduler-max-waiting", "7"),
        *("--telemetry-log-format", "json"),
        folder=tmp_path_factory.mktemp("cramped"),
    ) as server:
        yield server


def test_a_capacity_for_less_than_two_snapshots_is_warned_of(cramped):
    """The start says it, from the model alone; the value is kept."""
    assert cramped.stats()["snapshot_capacity_bytes"] == 10_000
    warnings = [json.loads(line) for line in cramped.lines_of_json() if "does not hold two snapshots" in line]
    assert [line["level"] for line in warnings] == ["warning"]


def test_limits_and_progress_are_told_while_requests_run(cramped):
    """The queue's limits stand beside what they limit; tokens rise while a request runs, not at its end."""
    talk = cramped.client().chat.completions.create(
        model=cramped.model,
        messages=[{"role": "user", "content": "Go on and on."}],
        max_tokens=400,
        logit_bias={str(END_OF_TURN): -100},
        stream=True,
    )
    next(chunk for chunk in talk if chunk.choices[0].delta.content)
    during = cramped.metrics()
    talk.close()
    assert during["samovar_requests_max_running"] == 3
    assert during["samovar_requests_max_waiting"] == 7
    assert during["samovar_requests_running"] == 1
    assert during["samovar_prefill_tokens_total"] > 0
    assert during["samovar_generated_tokens_total"] > 0
    assert during[labelled("samovar_request_duration_seconds_count")] == 0
