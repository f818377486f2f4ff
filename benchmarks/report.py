"""Writes docs/benchmarks.md from the committed results, so that no number in it is typed by hand.

`python -m benchmarks.report [--check]`; with `--check` it only says whether the page is up to date.
"""

import argparse
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import report_device, report_servers
from benchmarks.report_servers import picture, spread

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
RESULTS = ROOT / "benchmarks" / "results"

Result = Mapping[str, Any]


def page(
    *,
    store: Result,
    servings: Sequence[Result],
    stalls: Sequence[Result],
    turns: Result,
    turn: Result,
    telemetry: Result,
    structured: Result,
    soak: Result,
    budget: Result,
    peer: Result,
    loop: Result,
    decode: Result,
    start: Result,
    devices: Sequence[Result],
) -> str:
    """The whole page."""
    return "\n".join(
        [
            "# Benchmarks",
            "",
            "Written by `python -m benchmarks.report` from `benchmarks/results/`. Every number is a ratio of two things",
            "measured in the same run on the same machine: medians, with the smallest and the largest in brackets. Counts are counts.",
            "`make bench` measures anew, and `samovar bench URL` any server that speaks OpenAI's protocol.",
            "",
            *_serving(servings),
            *_stall(stalls),
            *_turns(turns),
            *_turn(turn),
            *report_servers.budget(budget, _machine(budget["machine"])),
            *report_servers.peer(peer, _machine(peer["machine"])),
            *_store(store),
            *_telemetry(telemetry),
            *_structured(structured),
            *report_servers.decode(decode, _machine(decode["machine"])),
            *report_servers.loop(loop, _machine(loop["machine"])),
            *report_servers.start(start, _machine(start["machine"])),
            *report_device.device(devices, _machine(devices[0]["machine"])),
            *_soak(soak),
        ]
    )


def _serving(results: Sequence[Result]) -> list[str]:
    lines = [
        "## Serving, beside `mlx_lm.server`",
        "",
        "Streamed chat completions to prompts that share nothing, in paired rounds. Above 1 is better for tokens a second, below 1 for the time to the first token.",
        "The smaller a model's step, the more of a token's time is the server's; the random model's takes some milliseconds, as those of common models do on faster machines.",
        "",
        "| model | words a prompt | tokens a reply | pairs | clients | tokens a second, ours ÷ theirs | time to first token, ours ÷ theirs |",
        "|---|---|---|---|---|---|---|",
    ]
    for result in results:
        options = result["options"]
        asked = f"| {options['model']} | {options['words']} | {options['max_tokens']} | {options['pairs']} "
        lines += [
            f"{asked}| {row['clients']} | {spread(row['throughput_ratio'])} | {spread(row['first_token_ratio'])} |"
            for row in result["results"]
        ]
    shown = picture(
        "serving", "The demo model: tokens a second and time to first token beside mlx_lm.server, by clients"
    )
    return [*lines, "", *shown, _machine(results[0]["machine"]), ""]


def _stall(results: Sequence[Result]) -> list[str]:
    lines = [
        "## Streams beside a long prompt, beside `mlx_lm.server`",
        "",
        "Replies are streamed, and a long prompt comes in their midst. How long the streams stand still until that prompt's first token, and how long it",
        "waits for it. Below 1 is better; the chunks that keep streams flowing cost the prompt some time (`scheduler.decode_stall_seconds`).",
        "",
        "| model | streams | tokens of the prompt | paired rounds | 99th percentile of the gaps, ours ÷ theirs | longest gap, ours ÷ theirs | time to the prompt's first token, ours ÷ theirs |",
        "|---|---|---|---|---|---|---|",
    ]
    for result in results:
        options, ratios = result["options"], result["result"]
        lines.append(
            f"| {options['model']} | {options['streams']} | {options['tokens']:,} | {options['pairs']} | {spread(ratios['gap_p99_ratio'])} "
            f"| {spread(ratios['gap_max_ratio'])} | {spread(ratios['prefill_ratio'])} |"
        )
    return [*lines, "", _machine(results[0]["machine"]), ""]


def _turns(result: Result) -> list[str]:
    lines = [
        "## Whole conversations, beside `mlx_lm.server`",
        "",
        f"{result['turns']} turns of a chat with a system prompt, and {result['turns']} steps of a tool loop whose last message is a tool's, on random models whose",
        "state is used whole or not at all. Prompt tokens computed and the median time to the first token, after the first turn; below 1 is better.",
        "In the loop every reply is a tool call, and its first token is the call, which is sent once it is whole. In the thinking loop the model thinks before each call, and the client does",
        "not send that back: Samovar puts it back and has it in its state by then, `mlx_lm.server` goes on from the end of the prompt before. The loops at once are",
        "agents with one system prompt and a task each; both servers keep of them what they keep by default, `mlx_lm.server` ten states, of which agents evict each other's.",
        "",
        "| model | conversation | tokens computed, ours and theirs | ours ÷ theirs | time to first token, ours ÷ theirs |",
        "|---|---|---|---|---|",
    ]
    for family, shapes in result["results"].items():
        for shape, servers in shapes.items():
            ours, theirs = (
                [turn for turns in servers[name] for turn in turns[1:]]
                for name in ("samovar", "mlx_lm.server")
            )
            computed = [sum(turn["computed_tokens"] for turn in turns) for turns in (ours, theirs)]
            first = [
                statistics.median(turn["first_token_seconds"] for turn in turns) for turns in (ours, theirs)
            ]
            lines.append(
                f"| {family} | {shape} | {computed[0]} and {computed[1]} | {computed[0] / computed[1]:.2f} "
                f"| {first[0] / first[1]:.2f} |"
            )
    shown = picture("turns", "Prompt tokens computed in each turn, beside mlx_lm.server")
    return [*lines, "", *shown, _machine(result["machine"]), ""]


def _turn(result: Result) -> list[str]:
    lines = [
        "## A turn on a long history",
        "",
        f"The next question of a conversation with as small a model as the arithmetic allows, {result['options']['pairs']} conversations of each length, so that nearly all of the time",
        "is the server's: the time to its first token where the state is kept, beside the same request cold; and what MLX alone takes for its part (a copy of",
        "the state, the new tokens, the copy that is kept) beside the whole. [What a warm turn costs](decisions/0015-what-a-warm-turn-costs.md) says where the rest goes.",
        "",
        "| model | tokens of history | warm ÷ cold | MLX alone ÷ warm |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {row['family']} | {row['tokens']:,} | {spread(row['warm_to_cold'], digits=3)} | {spread(row['mlx_to_warm'])} |"
        for row in result["rows"]
    ]
    return [*lines, "", _machine(result["machine"]), ""]


def _store(result: Result) -> list[str]:
    lines = [
        "## The store, beside mlx-lm's `LRUPromptCache` and one memcmp of the request",
        "",
        f"{result['entries']:,} entries of {result['entry_tokens']:,} tokens, requests of {result['request_tokens']:,} tokens. mlx-lm's cache holds fewer",
        "entries, because each of them takes megabytes of Python objects; nothing is scaled up for that.",
        "",
        "| case | ours ÷ memcmp | theirs ÷ ours |",
        "|---|---|---|",
    ]
    lines += [
        f"| {row['case']} | {row['store_to_memcmp']['median']:.2f} | {row['peer_to_store']:,.0f} |"
        for row in result["rows"]
    ]
    return [*lines, "", _machine(result["machine"]), ""]


def _telemetry(result: Result) -> list[str]:
    options = result["options"]
    lines = [
        "## What telemetry costs",
        "",
        "A server with every metric on and scraped once a second, every trace sent to an OTLP receiver and a log line a request, beside one with all of",
        f"that off: the demo model, streamed chat completions of {options['max_tokens']} tokens, {options['pairs']} paired rounds. {result['spans']:,} spans arrived, {result['scrapes']} scrapes were answered.",
        "",
        "| clients | tokens a second, on ÷ off | time to first token, on ÷ off | processor time, on ÷ off |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {row['clients']} | {spread(row['throughput_ratio'], digits=3)} | {spread(row['first_token_ratio'], digits=3)} "
        f"| {row['processor_ratio']:.3f} |"
        for row in result["results"]
    ]
    return [*lines, "", _machine(result["machine"]), ""]


def _structured(result: Result) -> list[str]:
    options = result["options"]
    lines = [
        "## What holding replies to a JSON schema costs",
        "",
        f"Replies of {options['tokens']} tokens held to a nested schema beside free ones from the same prompts, on the demo model with its {result['vocabulary']:,} tokens,",
        f"{options['pairs']} paired rounds. Compiling the schema took {result['compile_seconds'] * 1000:.0f} ms, once. The masks of a step are found while the device computes it.",
        "",
        "| replies at once | tokens a second, held ÷ free | masks, as a part of a free step |",
        "|---|---|---|",
    ]
    lines += [
        f"| {row['rows']} | {spread(row['throughput_ratio'])} | {row['mask_share']:.2%} |"
        for row in result["results"]
    ]
    return [*lines, "", _machine(result["machine"]), ""]


def _soak(result: Result) -> list[str]:
    options, soak = result["options"], result["result"]
    if soak["broken"]:
        raise ValueError(f"the soak broke its laws: {soak['broken']}")
    outcomes, looks = soak["outcomes"], soak["looks"]
    first, half, last = looks[0], looks[len(looks) // 2], looks[-1]
    left = outcomes["left"] + outcomes["streamed"]
    lines = [
        "## A soak",
        "",
        f"{soak['requests']:,} requests of {options['clients']} clients to one server in {soak['seconds'] / 60:.0f} minutes, on a tiny random Llama: talks in sessions, {left:,} streams most of which were",
        f"left amid the reply, {outcomes['nonsense']:,} requests that say nothing, {outcomes['429']:,} beyond the queue. {sum(soak['faults'].values())} times something in the engine was made to fail, which cost",
        f"{last['rebuilds']} batches, and {outcomes['500']:,} requests their answer. {len(looks)} times, with nobody being served, the server was looked at:",
        "",
        "| | first look | in the middle | last look |",
        "|---|---|---|---|",
        f"| requests so far | {first['requests']:,} | {half['requests']:,} | {last['requests']:,} |",
        f"| resident memory, ÷ that of the first look | 1 | {half['rss_bytes'] / first['rss_bytes']:.3f} | {last['rss_bytes'] / first['rss_bytes']:.3f} |",
    ]
    lines += [
        f"| {name} | {first[key]:,} | {half[key]:,} | {last[key]:,} |"
        for name, key in (
            ("series in a scrape", "series"),
            ("threads", "threads"),
            ("open files, connections included", "files"),
            ("snapshots", "entries"),
            ("batches built anew", "rebuilds"),
        )
    ]
    busy = soak["cores_busy"]
    return [
        *lines,
        "",
        f"From the middle on, memory moved by {soak['bytes_per_request']:.0f} bytes a request, by least squares. The ledger was exact at every look, each failure of a batch was counted once, the same question",
        f"was answered with the same words, no request was stuck, and none ended in another way. What bounds the rate is the processor: of {busy['machine']} cores, which others used as well, the server took",
        f"{busy['server']:.2f} and the clients, in Python, {busy['clients']:.2f}.",
        "",
        _machine(result["machine"]),
        "",
    ]


def _machine(machine: Mapping[str, Any]) -> str:
    versions = machine["versions"]
    return (
        f"Measured on {machine['cores']} cores of {machine['processor']}, {machine['system']}, "
        f"Python {machine['python']}, mlx {versions['mlx']}, mlx-lm {versions['mlx-lm']}."
    )


def current() -> str:
    """The page that the committed results make."""
    measured = {
        "store": "store_bench",
        "turns": "turns",
        "turn": "turn",
        "telemetry": "telemetry",
        "structured": "structured",
        "soak": "soak",
        "budget": "budget",
        "peer": "peer",
        "loop": "loop",
        "decode": "decode",
        "start": "start",
    }
    return page(
        servings=_all_of("serving*"),
        stalls=_all_of("stall*"),
        devices=_all_of("device_*"),
        **{name: json.loads((RESULTS / f"{file}.json").read_text()) for name, file in measured.items()},
    )


def _all_of(pattern: str) -> list[Result]:
    return [json.loads(file.read_text()) for file in sorted(RESULTS.glob(f"{pattern}.json"))]


def main() -> None:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say whether the page is up to date")
    if parser.parse_args().check:
        raise SystemExit(
            None if PAGE.read_text() == current() else f"{PAGE.name} is not what the results say"
        )
    PAGE.write_text(current())


if __name__ == "__main__":
    main()
