"""Whole conversations over HTTP, with the official client, against real server processes."""

from itertools import pairwise
from typing import Any

import httpx
import pytest

from tests.support.process import conversation, labelled, samovar, total

FOUR_TURNS = (
    "What is the capital of France?",
    "And what is the capital of Italy?",
    "Which of the two is larger?",
    "Thank you. Name one river there.",
)


@pytest.mark.slow
def test_a_four_turn_conversation_is_warm_from_the_second_turn_on(tmp_path):
    """cached_tokens grow turn by turn, and no reply differs from a server without a store (demo model)."""
    with samovar(folder=tmp_path) as server:
        warm = conversation(server.client(), server.model, FOUR_TURNS, session="talk")
        stats = server.stats()
    with samovar("--no-snapshot-enabled", folder=tmp_path) as server:
        cold = conversation(server.client(), server.model, FOUR_TURNS, session="talk")

    cached = [tokens for _, tokens, _ in warm]
    assert cached[0] == 0
    assert all(earlier < later for earlier, later in pairwise(cached)), cached
    assert [reply for reply, _, _ in warm] == [reply for reply, _, _ in cold]
    assert "Paris" in warm[0][0]
    assert [tokens for _, tokens, _ in cold] == [0, 0, 0, 0]
    assert stats["snapshot_hits"] == 3
    assert stats["snapshot_entries"] == 1


def interleaved(server):
    """Two conversations of four turns, interleaved: tokens reused and entries after each, and the books."""
    client = server.client()
    histories: dict[str, list[Any]] = {"anna": [], "bert": []}
    later_turns_cached, entries = [], []
    for name in ("anna", "bert", "anna", "anna", "bert", "bert", "anna", "bert"):
        messages = histories[name]
        text = f"{name} asks something after {len(messages)} messages. " * 3
        messages.append({"role": "user", "content": text})
        answer = client.chat.completions.create(
            model=server.model,
            messages=messages,
            temperature=0,
            max_tokens=8,
            extra_body={"prompt_cache_key": name},
        )
        if len(messages) > 1:
            later_turns_cached.append(answer.usage.prompt_tokens_details.cached_tokens)
        messages.append({"role": "assistant", "content": "noted"})
        entries.append(server.stats()["snapshot_entries"])
    return later_turns_cached, entries, server.stats(), server.metrics()


def test_supersede_ends_the_thrash_of_two_conversations_under_a_budget_of_three(tmp_path, tiny_folder):
    """On a whole-state model every later turn hits and nothing is evicted; without supersede it thrashes."""
    model = str(tiny_folder("qwen3_next"))
    budget = ("--model", model, "--snapshot-max-entries", "3", "--no-snapshot-warmup")

    with samovar(*budget, folder=tmp_path) as server:
        cached, entries, stats, metrics = interleaved(server)
    with samovar(*budget, "--no-snapshot-supersede", folder=tmp_path) as server:
        cached_thrashing, entries_thrashing, thrashing, _ = interleaved(server)

    assert min(cached) > 0
    assert entries == [1, 2, 2, 2, 2, 2, 2, 2]
    assert stats["snapshot_supersedes"] == 6
    assert stats["snapshot_evictions_lru"] == 0
    assert metrics[labelled("samovar_snapshot_removals_total", reason="superseded")] == 6
    assert metrics[labelled("samovar_snapshot_removals_total", reason="lru_entries")] == 0
    assert min(cached_thrashing) == 0, "a conversation lost its state to the other one's old turns"
    assert entries_thrashing == [1, 2, 3, 3, 3, 3, 3, 3]
    assert thrashing["snapshot_supersedes"] == 0
    assert thrashing["snapshot_evictions_lru"] == 5


def test_guesses_at_next_turns_cost_no_conversation_its_state(tmp_path, tiny_folder):
    """The same two conversations with all defaults: every later turn hits, nothing is evicted."""
    with samovar(
        *("--model", str(tiny_folder("lfm2")), "--snapshot-max-entries", "3"), folder=tmp_path
    ) as server:
        cached, entries, stats, _ = interleaved(server)

    assert min(cached) > 0
    assert max(entries) <= 3
    assert stats["snapshot_evictions_lru"] == 0


def test_a_snapshot_larger_than_the_store_is_refused_and_its_ancestor_stays(tmp_path, tiny_folder):
    """The request is served; the rejection is counted as oversized and costs nothing that was there."""
    model = str(tiny_folder("llama"))
    short, long = "A question that is short enough.", "A long question. " * 40

    with samovar(
        "--model", model, "--snapshot-capacity-bytes", "100kB", "--snapshot-completions", "never",
        "--no-snapshot-warmup",
        folder=tmp_path,
    ) as server:  # fmt: skip
        said = conversation(server.client(), server.model, [short, long, "And then?"], session="talk")
        stats = server.stats()

    assert [cached > 0 for _, cached, _ in said] == [False, True, True]
    assert said[1][1] == said[2][1], "the third turn still hits the ancestor of the refused second"
    assert stats["snapshot_entries"] == 1
    assert stats["snapshot_rejections_oversized"] == 2
    assert stats["snapshot_supersedes"] == 0


@pytest.mark.parametrize("family", ["llama", "qwen3_next", "lfm2", "gemma3_text"])
def test_replies_do_not_depend_on_the_store(tmp_path, tiny_folder, family):
    """Temperature 0, three turns, with and without snapshots: the same replies, and hits with them."""
    model = str(tiny_folder(family))
    turns = ["Tell me something about tea. " * 4, "Go on.", "And then?"]

    with samovar("--model", model, folder=tmp_path) as server:
        warm = conversation(server.client(), server.model, turns, session="talk")
    with samovar("--model", model, "--no-snapshot-enabled", folder=tmp_path) as server:
        cold = conversation(server.client(), server.model, turns, session="talk")

    assert [reply for reply, _, _ in warm] == [reply for reply, _, _ in cold]
    assert [cached > 0 for _, cached, _ in warm] == [False, True, True]
    assert [cached for _, cached, _ in cold] == [0, 0, 0]


def test_a_reset_empties_the_store_and_the_books_still_balance(tmp_path, tiny_folder):
    """What was freed is what was held, and the next turn is cold."""
    with samovar("--model", str(tiny_folder("llama")), "--no-snapshot-warmup", folder=tmp_path) as server:
        conversation(server.client(), server.model, ["Some question about tea and cups."] * 2, session="a")
        held = server.stats()
        reset = httpx.post(server.url + "/v1/cache/reset").raise_for_status().json()
        after = server.stats()
        metrics = server.metrics()

    assert reset == {
        "cleared": True,
        "freed_entries": held["snapshot_entries"],
        "freed_bytes": held["snapshot_bytes"],
    }
    assert held["snapshot_entries"] > 0
    assert (after["snapshot_entries"], after["snapshot_bytes"]) == (0, 0)
    inserts = total(metrics, "samovar_snapshot_inserts_total")
    assert inserts == total(metrics, "samovar_snapshot_removals_total") > 0
