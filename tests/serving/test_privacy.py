"""What a client says stays between it and the model: no log line, span or metric repeats a word of it."""

import json
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.support.otlp_receiver import OtlpReceiver
from tests.support.process import Samovar, samovar
from tests.support.talking import END_OF_TURN

SECRET = "xyzzysecret"
URL = "/v1/chat/completions"

TOOL = {
    "type": "function",
    "function": {
        "name": f"{SECRET}_tool",
        "description": SECRET,
        "parameters": {"type": "object", "properties": {SECRET: {"type": "string"}}},
    },
}
CALL = {
    "id": f"call_{SECRET}",
    "type": "function",
    "function": {"name": f"{SECRET}_tool", "arguments": json.dumps({SECRET: SECRET})},
}
MESSAGES = [
    {"role": "system", "content": f"You keep {SECRET}."},
    {"role": "user", "content": [{"type": "text", "text": SECRET * 4}], "name": SECRET},
    {"role": "assistant", "content": None, "reasoning_content": SECRET, "tool_calls": [CALL]},
    {"role": "tool", "content": SECRET, "tool_call_id": f"call_{SECRET}"},
    {"role": "user", "content": f"Say {SECRET}."},
]
HEADERS = {
    "authorization": f"Bearer {SECRET}",
    "x-api-key": SECRET,
    "cookie": f"session={SECRET}",
    "x-session-id": SECRET,
    "session-id": SECRET,
    "x-claude-code-session-id": SECRET,
    "x-forwarded-for": SECRET,
    "referer": f"https://{SECRET}.example",
    "baggage": f"user={SECRET}",
    "x-something": SECRET,
}
SERVED = {
    "messages": MESSAGES,
    "max_tokens": 4,
    "temperature": 0,
    # A random model may end its turn at any time; here it is stopped by the limit.
    "logit_bias": {str(END_OF_TURN): -100},
    "tools": [TOOL],
    "stop": [SECRET],
    "user": SECRET,
    "prompt_cache_key": SECRET,
    "chat_template_kwargs": {SECRET: SECRET},
    "metadata": {SECRET: SECRET},
    SECRET: SECRET,
}
REFUSED = (
    {"model": SECRET},
    {"messages": SECRET},
    {"messages": [{"role": SECRET, "content": "x"}]},
    {"messages": [{"role": "user", "content": [{"type": SECRET}]}]},
    {"tool_choice": SECRET},
    {"response_format": {"type": SECRET}},
    {"logit_bias": {SECRET: 1}},
    {"max_tokens": SECRET},
    {"chat_template_kwargs": {"messages": SECRET}},
)


def talk(server: Samovar) -> None:
    """Put the mark into everything that is a client's to fill, in what is served and in what is refused."""
    query = f"?api_key={SECRET}"
    for stream in (False, True):
        body = {**SERVED, "stream": stream}
        reply = httpx.post(server.url + URL + query, json=body, headers=HEADERS, timeout=60)
        assert reply.status_code == 200, reply.text
    for wrong in REFUSED:
        reply = httpx.post(server.url + URL + query, json={**SERVED, **wrong}, headers=HEADERS, timeout=60)
        assert 400 <= reply.status_code < 500, (wrong, reply.text)
    broken = httpx.post(
        server.url + URL, content=f'{{"messages": {SECRET}'.encode(), headers=HEADERS, timeout=60
    )
    assert broken.status_code == 400
    for path in ("/v1/models", "/v1/cache/stats", "/livez", f"/{SECRET}"):
        httpx.get(server.url + path + query, headers=HEADERS, timeout=60)


@dataclass(frozen=True)
class Told:
    """Everything a server said of its clients: log lines, spans as text, and what is scraped."""

    output: str
    lines: list[dict[str, Any]]
    spans: str
    scraped: str


@pytest.fixture(scope="module")
def told(tmp_path_factory, tiny_folder) -> Told:
    """A talk with a server that tells all it can: every log line, every trace, every series."""
    with (
        OtlpReceiver() as collector,
        samovar(
            *("--model", str(tiny_folder("lfm2")), "--telemetry-otlp-endpoint", collector.endpoint),
            *("--telemetry-log-level", "debug", "--no-snapshot-warmup"),
            folder=tmp_path_factory.mktemp("told"),
        ) as server,
    ):
        talk(server)
        scraped = server.get("/metrics").text + server.get("/v1/cache/stats").text
        assert server.stop() == 0
        spans = "".join(map(str, collector.spans))
    return Told(server.output, [json.loads(line) for line in server.lines_of_json()], spans, scraped)


def test_nothing_a_client_says_is_told_on(told):
    """The mark is in no log line, no span and no series."""
    assert "snapshot inserted" in told.output
    assert "gen_ai.usage.input_tokens" in told.spans
    assert "samovar_snapshot_inserts_total" in told.scraped
    for text in (told.output, told.spans, told.scraped):
        assert SECRET not in text.lower()


def test_content_goes_into_traces_only_where_it_was_asked_for(tmp_path, tiny_folder):
    """With `telemetry.capture_content` the conversation is on its span, still in no log line or series."""
    with (
        OtlpReceiver() as collector,
        samovar(
            *("--model", str(tiny_folder("lfm2")), "--telemetry-otlp-endpoint", collector.endpoint),
            *("--telemetry-capture-content", "--telemetry-log-level", "debug"),
            folder=tmp_path,
        ) as server,
    ):
        talk(server)
        scraped = server.get("/metrics").text
        assert server.stop() == 0
        telling = {span.name for span in collector.spans if SECRET in str(span)}

    assert telling == {"chat lfm2"}
    assert SECRET not in (server.output + scraped).lower()
    assert "telemetry.capture_content" in server.output, "the operator is told"


def test_each_request_is_one_access_line(told):
    """Served, refused or broken, a request leaves exactly one line, with what it came to."""
    lines = [line for line in told.lines if line["event"] == "request"]

    assert len(lines) == 2 + len(REFUSED) + 1
    assert {line["route"] for line in lines} == {URL}
    whole, streamed, *refused = lines
    for line in (whole, streamed):
        assert (line["status"], line["outcome"], line["finish_reason"]) == (200, "completed", "length")
        assert line["prompt_tokens"] > line["cached_tokens"]
        assert line["completion_tokens"] == 4
        assert min(line[f"{stage}_seconds"] for stage in ("queue", "prefill", "decode")) >= 0
        assert line["queue_seconds"] + line["prefill_seconds"] + line["decode_seconds"] <= line["seconds"]
    assert (whole["cache"], whole["miss"]) == ("miss", "empty")
    assert streamed["cache"] == "hit"
    assert "miss" not in streamed
    assert whole["session.hash"] == streamed["session.hash"]
    assert {line["outcome"] for line in refused} == {"invalid"}
    assert all("trace_id" in line and "job_id" not in line for line in refused)
