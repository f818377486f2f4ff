"""The books of a live server: counters, gauges, statistics and spans say the same of a random workload."""

import random
import shutil
import subprocess
from collections import Counter

import httpx
import pytest

from app.vocabulary import Miss, Origin, Rejection, Removal
from tests.support.otlp_receiver import OtlpReceiver, attributes_of
from tests.support.process import Samovar, labelled, samovar, total
from tests.support.talking import question

SEED = 20261130


def ask(server: Samovar, messages, **options):
    return httpx.post(f"{server.url}/v1/chat/completions", json={"messages": messages, **options}, timeout=60)


def random_workload(server: Samovar, *, requests: int) -> None:
    """Conversations that grow, fork, replay, opt out, send nonsense; resets in between."""
    rng = random.Random(SEED)
    histories: dict[str, list[dict[str, str]]] = {name: [] for name in ("ada", "bob", "cyd", "dan", "eve")}
    for number in range(requests):
        name = rng.choice(list(histories))
        history = histories[name]
        kind = rng.random()
        if kind < 0.05:
            assert httpx.post(f"{server.url}/v1/cache/reset").status_code == 200
        elif kind < 0.1:
            assert ask(server, []).status_code == 400
        else:
            if kind < 0.2 and len(history) > 2:
                del history[rng.randrange(1, len(history)) :]
            if kind > 0.3 or not history:
                words = rng.choices(["tea", "cup", "steam", "coal", "water"], k=rng.randrange(2, 40))
                history.append({"role": "user", "content": " ".join(words)})
            options = {"cache_prompt": False} if kind > 0.95 else {}
            key = {} if name == "eve" else {"prompt_cache_key": name}
            answer = ask(server, history, temperature=0, max_tokens=rng.randrange(1, 6), **key, **options)
            assert answer.status_code == 200, (number, answer.text)
            history.append({"role": "assistant", "content": rng.choice(["yes", "no", "perhaps"])})


@pytest.mark.slow
@pytest.mark.parametrize("family", ["llama", "lfm2"])
def test_counters_gauges_statistics_and_spans_agree(tmp_path, tiny_folder, family):
    """inserts - removals = entries in counts and bytes; stats equal metrics; a span for every count."""
    with (
        OtlpReceiver() as collector,
        samovar(
            *("--model", str(tiny_folder(family))),
            *("--snapshot-max-entries", "4", "--snapshot-capacity-bytes", "600kB", "--no-snapshot-warmup"),
            *("--telemetry-otlp-endpoint", collector.endpoint),
            folder=tmp_path,
        ) as server,
    ):
        random_workload(server, requests=90)
        metrics, stats = server.metrics(), server.stats()
        promtool = subprocess.run(
            [_tool("promtool"), "check", "metrics"],
            input=server.get("/metrics").text,
            capture_output=True,
            text=True,
            check=False,
        )
        assert server.stop() == 0
        spans = collector.counts()
        evictions = Counter(
            attributes_of(span)["samovar.snapshot.reason"] for span in collector.named("snapshot.evict")
        )

    def counted(series, **labels):
        return metrics[labelled(f"samovar_snapshot_{series}", **labels)]

    for unit, held in (("s", "entries"), ("ed_bytes", "bytes")):
        inserted = total(metrics, f"samovar_snapshot_insert{unit}_total")
        removed = total(metrics, f"samovar_snapshot_remov{'al' if unit == 's' else ''}{unit}_total")
        assert inserted - removed == total(metrics, f"samovar_snapshot_{held}") > 0
    assert stats["snapshot_entries"] == total(metrics, "samovar_snapshot_entries")
    assert stats["snapshot_bytes"] == total(metrics, "samovar_snapshot_bytes")
    for key, series, label, values in (
        ("inserts_by_origin", "inserts_total", "origin", Origin),
        ("removals_by_reason", "removals_total", "reason", Removal),
        ("removed_bytes_by_reason", "removed_bytes_total", "reason", Removal),
        ("rejections_by_reason", "rejections_total", "reason", Rejection),
        ("lookups_by_outcome", "lookups_total", "outcome", ["hit", *Miss]),
    ):
        assert stats[f"snapshot_{key}"] == {str(v): counted(series, **{label: v}) for v in values}

    removals = stats["snapshot_removals_by_reason"]
    # Where one completion serves for a whole conversation, only a reply that is sent back supersedes.
    assert removals["superseded"] > 0 or family == "llama"
    assert removals["cleared"] > 0
    assert removals["lru_entries"] + removals["lru_bytes"] > 0
    assert spans["snapshot.supersede"] == removals["superseded"]
    assert spans["snapshot.replace"] == removals["replaced"]
    # The stop itself clears what is left, after the numbers were read.
    assert spans["snapshot.remove"] == removals["cleared"] + stats["snapshot_entries"]
    assert evictions == Counter(
        {reason: count for reason, count in removals.items() if reason.startswith("lru") and count}
    )
    assert spans["snapshot.lookup"] == sum(stats["snapshot_lookups_by_outcome"].values())
    assert spans["snapshot.insert"] == stats["snapshot_inserts"] + sum(
        stats["snapshot_rejections_by_reason"].values()
    )
    assert spans["snapshot.reject"] == sum(stats["snapshot_rejections_by_reason"].values())
    requests = metrics[labelled("samovar_requests_total", outcome="completed", route="/v1/chat/completions")]
    assert spans["queue"] == spans["prefill"] == spans["decode"] == requests
    assert (promtool.returncode, promtool.stderr) == (0, "")
    assert metrics["samovar_requests_running"] == metrics["samovar_requests_waiting"] == 0
    assert total(metrics, "samovar_telemetry_dropped_total") == 0


def test_a_removal_links_to_the_trace_that_inserted_the_entry(tmp_path, tiny_folder):
    """The operator sees which conversation pushed which out."""
    with (
        OtlpReceiver() as collector,
        samovar(
            *("--model", str(tiny_folder("qwen3_next")), "--snapshot-max-entries", "1"),
            "--no-snapshot-warmup",
            *("--telemetry-otlp-endpoint", collector.endpoint),
            folder=tmp_path,
        ) as server,
    ):
        question = [{"role": "user", "content": "Some question that is long enough to be kept."}]
        for name in ("first", "second"):
            ask(server, question, prompt_cache_key=name, max_tokens=2).raise_for_status()
        assert server.stop() == 0
        (eviction,) = collector.named("snapshot.evict")
        first, second = sorted(collector.named("snapshot.insert"), key=lambda s: s.start_time_unix_nano)
        servers = {s.trace_id: s for s in collector.named("POST /v1/chat/completions")}

    assert eviction.trace_id == second.trace_id
    assert eviction.parent_span_id == second.span_id
    assert [link.trace_id for link in eviction.links] == [first.trace_id]
    assert set(servers) == {first.trace_id, second.trace_id}
    assert not any("first" in str(attributes_of(span)) for span in [first, second, eviction])


def test_a_client_of_a_trace_finds_the_server_in_it(tmp_path, tiny_folder):
    """W3C trace context comes in, and the whole request hangs under it."""
    trace_id, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    with (
        OtlpReceiver() as collector,
        samovar(
            *("--model", str(tiny_folder("llama")), "--telemetry-otlp-endpoint", collector.endpoint),
            folder=tmp_path,
        ) as server,
    ):
        httpx.post(
            f"{server.url}/v1/chat/completions",
            json=question(1, 2),
            headers={"traceparent": f"00-{trace_id}-{parent}-01"},
            timeout=60,
        ).raise_for_status()
        assert server.stop() == 0
        spans = {span.name: span for span in collector.spans if span.trace_id.hex() == trace_id}

    root = spans["POST /v1/chat/completions"]
    chat = spans["chat llama"]
    assert root.parent_span_id.hex() == parent
    assert chat.parent_span_id == root.span_id
    for name in ("queue", "prefill", "decode", "snapshot.lookup"):
        assert spans[name].parent_span_id == chat.span_id, name
    assert attributes_of(chat)["gen_ai.usage.output_tokens"] == 2


def _tool(name: str) -> str:
    path = shutil.which(name)
    assert path is not None, f"{name} is not installed; .ci/run installs what the tests need"
    return path
