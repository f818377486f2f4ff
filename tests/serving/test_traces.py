"""The traces of a live server, as a real OTLP receiver gets them, and what leads to them."""

import json
import re
from collections import Counter, defaultdict

import httpx
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from app import __version__
from tests.support.otlp_receiver import OtlpReceiver, attributes_of
from tests.support.process import Samovar, samovar
from tests.telemetry.collectors import grpc_collector

SERVER = "POST /v1/chat/completions"
OPENMETRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
QUESTION = "Some question that is long enough for its state to be worth keeping."
END_OF_TURN = "257"


def ask(server: Samovar, messages, **options) -> httpx.Response:
    return httpx.post(
        f"{server.url}/v1/chat/completions",
        json={"messages": messages, "temperature": 0, **options},
        timeout=60,
    ).raise_for_status()


def tree(spans: list[Span]) -> dict[str, Counter[str]]:
    """Name of a span → the names of its children, over all traces."""
    names = {span.span_id: span.name for span in spans}
    below: dict[str, Counter[str]] = defaultdict(Counter)
    for span in spans:
        below[names.get(span.parent_span_id, "")][span.name] += 1
    return dict(below)


def numbers(spans: list[Span], attribute: str) -> list[int]:
    """The values of an attribute that is a whole number."""
    values = [attributes_of(span)[attribute] for span in spans]
    return [value for value in values if isinstance(value, int)]


def test_two_turns_are_two_traces_of_the_documented_shape(tmp_path, tiny_folder):
    """Server span, chat span, stages and the store's work under it; usage counts cached tokens as input."""
    with (
        OtlpReceiver() as collector,
        samovar(
            *("--model", str(tiny_folder("lfm2")), "--no-snapshot-warmup", "--no-snapshot-system-anchors"),
            *("--telemetry-otlp-endpoint", collector.endpoint),
            folder=tmp_path,
            environment={"OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=home"},
        ) as server,
    ):
        history = [{"role": "user", "content": QUESTION}]
        first = ask(server, history, max_tokens=3, prompt_cache_key="one").json()
        history += [first["choices"][0]["message"], {"role": "user", "content": QUESTION}]
        second = ask(server, history, max_tokens=3, prompt_cache_key="one").json()
        assert server.stop() == 0
        spans, resource = collector.spans, collector.resource

    stages = {"queue": 2, "prefill": 2, "decode": 2}
    store = {"snapshot.lookup": 2, "snapshot.restore": 1, "snapshot.capture": 2, "snapshot.insert": 2}
    assert tree(spans) == {
        # The stop itself clears what is left.
        "": {SERVER: 2, "snapshot.clear": 1},
        SERVER: {"chat lfm2": 2},
        "chat lfm2": {**stages, **store},
        "snapshot.insert": {"snapshot.supersede": 1},
        "snapshot.clear": {"snapshot.remove": 1},
    }
    chats = sorted(collector.named("chat lfm2"), key=lambda span: span.start_time_unix_nano)
    for chat, reply in zip(chats, (first, second), strict=True):
        told = attributes_of(chat)
        assert told["gen_ai.response.id"] == reply["id"]
        assert told["gen_ai.usage.input_tokens"] == reply["usage"]["prompt_tokens"]
        assert told["gen_ai.usage.output_tokens"] == reply["usage"]["completion_tokens"]
        assert (
            told["gen_ai.usage.cache_read.input_tokens"]
            == reply["usage"]["prompt_tokens_details"]["cached_tokens"]
        )
    boundaries = sorted(numbers(collector.named("snapshot.insert"), "samovar.snapshot.tokens"))
    assert numbers(chats, "gen_ai.usage.cache_read.input_tokens") == [0, boundaries[0]]
    created = numbers(collector.named("decode"), "gen_ai.usage.cache_creation.input_tokens")
    assert sorted(created) == sorted([boundaries[0], boundaries[1] - boundaries[0]])
    (superseded,) = collector.named("snapshot.supersede")
    assert [link.trace_id for link in superseded.links] == [chats[0].trace_id]
    assert resource["service.name"] == "samovar"
    assert resource["service.version"] == __version__
    assert resource["deployment.environment.name"] == "home"
    assert re.fullmatch(r"[0-9a-f-]{36}", str(resource["service.instance.id"]))
    assert {"host.name", "host.arch", "os.type", "process.pid"} <= resource.keys()


def test_a_long_stream_makes_no_span_a_token(tmp_path, tiny_folder):
    """2,000 streamed tokens leave the same handful of spans as two do."""
    made = []
    with (
        OtlpReceiver() as collector,
        samovar(
            *("--model", str(tiny_folder("llama")), "--no-snapshot-warmup"),
            *("--telemetry-otlp-endpoint", collector.endpoint),
            folder=tmp_path,
        ) as server,
    ):
        for number, tokens in enumerate((2, 2000)):
            reply = ask(
                server,
                [{"role": "user", "content": f"{number} {QUESTION}"}],
                max_tokens=tokens,
                prompt_cache_key=str(number),
                stream=True,
                stream_options={"include_usage": True},
                logit_bias={END_OF_TURN: -100},
            )
            frames = [
                json.loads(line.removeprefix("data: "))
                for line in reply.text.split("\n")
                if line.startswith("data: {")
            ]
            assert frames[-1]["usage"]["completion_tokens"] == tokens
            made.append((len(frames), reply.headers["traceresponse"].split("-")[1]))
        assert server.stop() == 0
        traces = [
            Counter(span.name for span in collector.spans if span.trace_id.hex() == trace_id)
            for _, trace_id in made
        ]

    assert traces[0] == traces[1]
    assert traces[1].total() < 10
    assert made[1][0] > 10 * traces[1].total(), "it was streamed, in many more pieces than there are spans"


def exemplars_of(server: Samovar) -> set[str]:
    """The trace ids that a scrape points to, as a Prometheus asks for it."""
    scraped = server.get("/metrics", headers={"accept": OPENMETRICS})
    assert scraped.headers["content-type"].startswith("application/openmetrics-text")
    return {
        sample.exemplar.labels["trace_id"]
        for family in text_string_to_metric_families(scraped.text)
        for sample in family.samples
        if sample.exemplar
    }


def test_a_scrape_leads_to_the_trace_of_a_request(tmp_path, tiny_folder):
    """The exemplar of the time to the first token is a trace that the collector has."""
    with (
        OtlpReceiver() as collector,
        samovar(
            *("--model", str(tiny_folder("llama")), "--telemetry-otlp-endpoint", collector.endpoint),
            folder=tmp_path,
        ) as server,
    ):
        answer = ask(server, [{"role": "user", "content": QUESTION}], max_tokens=2)
        exemplars = exemplars_of(server)
        assert server.stop() == 0
        collected = {span.trace_id.hex() for span in collector.named(SERVER)}

    assert exemplars == collected == {answer.headers["traceresponse"].split("-")[1]}


def test_without_a_collector_nothing_points_to_a_trace(tmp_path, tiny_folder):
    """No exemplar and no header leads to a trace that nobody recorded; log lines still share an id."""
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    with samovar("--model", str(tiny_folder("llama")), folder=tmp_path) as server:
        answer = httpx.post(
            f"{server.url}/v1/chat/completions",
            json={"messages": [{"role": "user", "content": QUESTION}], "max_tokens": 2},
            headers={"traceparent": f"00-{trace_id}-b7ad6b7169203331-01"},
            timeout=60,
        ).raise_for_status()
        assert exemplars_of(server) == set()
        assert server.stop() == 0
        lines = [json.loads(line) for line in server.lines_of_json()]

    assert "traceresponse" not in answer.headers
    assert [line["trace_id"] for line in lines if line["event"] == "request"] == [trace_id]


def test_the_ratio_decides_unless_the_caller_did(tmp_path, tiny_folder):
    """Over gRPC: at a ratio of nothing, the request that its caller records is recorded, and no other."""
    trace_id = "ab" * 16
    with (
        grpc_collector() as collector,
        samovar(
            *("--model", str(tiny_folder("llama")), "--telemetry-otlp-endpoint", collector.endpoint),
            *("--telemetry-otlp-protocol", "grpc", "--telemetry-sample-ratio", "0"),
            folder=tmp_path,
        ) as server,
    ):
        for headers in ({"traceparent": f"00-{trace_id}-{'cd' * 8}-01"}, {}):
            httpx.post(
                f"{server.url}/v1/chat/completions",
                json={"messages": [{"role": "user", "content": QUESTION}], "max_tokens": 2},
                headers=headers,
                timeout=60,
            ).raise_for_status()
        assert server.stop() == 0
        spans = [
            span for each in collector.resource_spans for scope in each.scope_spans for span in scope.spans
        ]

    assert Counter(span.name for span in spans)[SERVER] == 1
    assert {span.trace_id.hex() for span in spans} == {trace_id}
