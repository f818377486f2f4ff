"""Families that need care, through the real server over HTTP: what the check found is served, and told."""

from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.families.laws import FIRST, SECOND
from tests.support.process import conversation, labelled, samovar
from tests.support.tiny import make_tiny_model

FOUND = {
    "jamba": {"reuse": 1, "truncation": 0, "batched_prefill": 0, "batched_decode": 1},
    "llama4": {"reuse": 1, "truncation": 1, "batched_prefill": 0, "batched_decode": 0},
}
SAID = {"jamba": "prompts are prefilled one at a time", "llama4": "requests run one at a time"}


@pytest.mark.parametrize("family", FOUND)
def test_a_family_that_needs_care_is_served_warm_and_exactly(tmp_path, family):
    """The second turn hits, replies are those of a server without a store, and the shortcoming is told."""
    model = ("--model", str(make_tiny_model(tmp_path / family, family)))
    turns = (FIRST, SECOND)
    with samovar(*model, folder=tmp_path) as server:
        warm = conversation(server.client(), server.model, turns, session="talk")
        metrics = server.metrics()
    with samovar(*model, "--no-snapshot-enabled", folder=tmp_path) as plain:
        cold = conversation(plain.client(), plain.model, turns, session="talk")

    assert [cached > 0 for _, cached, _ in warm] == [False, True]
    assert [reply for reply, _, _ in warm] == [reply for reply, _, _ in cold]
    told = {name: metrics[labelled("samovar_model_capability", capability=name)] for name in FOUND[family]}
    assert told == FOUND[family]
    assert SAID[family] in server.output


def test_requests_of_a_model_without_batches_wait_for_each_other(tmp_path):
    """Three requests at once to a model that runs one at a time are all answered, as alone."""
    model = str(make_tiny_model(tmp_path / "llama4", "llama4"))
    with samovar("--model", model, folder=tmp_path) as server:
        bodies = [
            {
                "messages": [{"role": "user", "content": text}],
                "temperature": 0,
                "max_tokens": 8,
                "cache_prompt": False,
            }
            for text in (FIRST, SECOND, "Short.")
        ]
        url = f"{server.url}/v1/chat/completions"
        alone = [httpx.post(url, json=body, timeout=60).json()["choices"] for body in bodies]
        with ThreadPoolExecutor(3) as pool:
            together = list(
                pool.map(lambda body: httpx.post(url, json=body, timeout=60).json()["choices"], bodies)
            )

    assert together == alone
