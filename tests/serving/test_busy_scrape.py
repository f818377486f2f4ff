"""`/metrics` of a live server while its engine is busy with one long prompt."""

from concurrent.futures import ThreadPoolExecutor

import httpx

from tests.support.process import samovar

PROMPT_CHARACTERS = 2500


def test_metrics_answer_in_the_midst_of_a_long_prefill(tmp_path, tiny_folder):
    """Scrapes are answered while the whole prompt is one step of the engine, and say that it runs."""
    with (
        samovar(
            *("--model", str(tiny_folder("llama")), "--scheduler-prefill-step-tokens", "4096"),
            folder=tmp_path,
        ) as server,
        ThreadPoolExecutor() as clients,
    ):
        reply = clients.submit(
            httpx.post,
            f"{server.url}/v1/chat/completions",
            json={"messages": [{"role": "user", "content": "x" * PROMPT_CHARACTERS}], "max_tokens": 1},
            timeout=120,
        )
        running = []
        while not reply.done():
            scraped = server.metrics()
            running.append(scraped["samovar_requests_running"])
            if running[-1]:
                assert scraped["samovar_requests_waiting"] == 0
        prompt_tokens = reply.result().raise_for_status().json()["usage"]["prompt_tokens"]
        computed = server.metrics()['samovar_prompt_tokens_total{source="computed"}']

    assert 1 in running, "no scrape was answered before the prefill was over"
    assert prompt_tokens == computed > PROMPT_CHARACTERS
