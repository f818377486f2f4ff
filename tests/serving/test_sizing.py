"""The operator is told what capacity would be right, and it is."""

import json

import pytest

from tests.support.process import Samovar, labelled, samovar, total

SESSIONS = [f"session {number}" for number in range(5)]
TURNS = 3
MEMORY_FLAGS = ("--snapshot-min-prefix-tokens", "4")


def talk_in_turns(server: Samovar) -> list[int]:
    """Five conversations of three turns each, every one in its turn; cached tokens of all but the first."""
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
    return cached


@pytest.mark.parametrize("family", ["qwen3_next", "llama"])
def test_the_recommended_capacity_ends_the_thrash_that_it_was_measured_in(tmp_path, tiny_folder, family):
    """With a budget for two conversations five push each other out; with what is then recommended, none does."""
    model = ("--model", str(tiny_folder(family)), "--no-snapshot-system-anchors", *MEMORY_FLAGS)
    with samovar(*model, folder=tmp_path) as server:
        talk_in_turns(server)
        entry_bytes = server.stats()["snapshot_bytes_per_entry"]

    small = str(round(2.5 * entry_bytes))
    with samovar(*model, "--snapshot-capacity-bytes", small, folder=tmp_path) as server:
        thrashing = talk_in_turns(server)
        stats, metrics = server.stats(), server.metrics()
    assert 0 in thrashing
    assert stats["snapshot_evictions_lru"] > 0
    assert total(metrics, "samovar_snapshot_ghost_hits_total") > 0
    assert metrics["samovar_snapshot_capacity_bytes"] == float(small), "an explicit value was overridden"
    recommended = stats["snapshot_recommended_bytes"]
    assert recommended == metrics["samovar_snapshot_recommended_bytes"] > 2 * float(small) / 1.5
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
    model = ("--model", str(tiny_folder("qwen3_next")), "--model-context-length", "256", *MEMORY_FLAGS)
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


def test_a_capacity_for_less_than_two_snapshots_is_warned_of(tmp_path, tiny_folder):
    """The start says it, from the model alone; the value is kept."""
    with samovar(
        *("--model", str(tiny_folder("llama")), "--snapshot-capacity-bytes", "10kB"),
        *("--telemetry-log-format", "json"),
        folder=tmp_path,
    ) as server:
        capacity = server.stats()["snapshot_capacity_bytes"]
    assert capacity == 10_000
    warnings = [json.loads(line) for line in server.lines_of_json() if "does not hold two snapshots" in line]
    assert [line["level"] for line in warnings] == ["warning"]


def test_limits_of_the_queue_are_beside_what_they_limit(tmp_path, tiny_folder):
    """As the model allows and the operator asks; tokens rise while a request runs, not at its end."""
    with samovar(
        *("--model", str(tiny_folder("llama")), "--scheduler-max-running", "3"),
        *("--scheduler-max-waiting", "7"),
        folder=tmp_path,
    ) as server:
        talk = server.client().chat.completions.create(
            model=server.model,
            messages=[{"role": "user", "content": "Go on and on."}],
            max_tokens=400,
            stream=True,
        )
        next(talk)
        during = server.metrics()
        talk.close()
    assert during["samovar_requests_max_running"] == 3
    assert during["samovar_requests_max_waiting"] == 7
    assert during["samovar_requests_running"] == 1
    assert during["samovar_prefill_tokens_total"] > 0
    assert during["samovar_generated_tokens_total"] > 0
    assert during[labelled("samovar_prompt_tokens_total", source="computed")] == 0
