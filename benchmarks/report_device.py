"""The section of docs/benchmarks.md on models of real size."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.report_servers import picture, spread
from benchmarks.servers import MLX_LM, SAMOVAR

Result = Mapping[str, Any]

_KINDS = {
    "dense-8b": "a dense one of 8 billion weights",
    "hybrid-2b": "a hybrid of 2 billion",
    "sliding-4b": "one of 4 billion with sliding windows",
}


def device(results: Sequence[Result], machine: str) -> list[str]:
    """Turns and decoding, each shape's file a part of the tables."""
    options = results[0]["options"]
    kinds = [_KINDS[result["result"]["shape"]] for result in results]
    tokens = sorted({str(result["options"]["max_tokens"]) for result in results})
    lines = [
        "## Models of real size, on a GPU",
        "",
        f"`python -m benchmarks.device_bench`. Random weights in bfloat16, in the shapes of well-known models, on one {results[0]['machine']['device']}: {', '.join(kinds[:-1])} and {kinds[-1]}.",
        f"A conversation's next turn brings {options['new_tokens']} tokens. The time to its first token where the state is kept, beside the same request cold, and beside its limit: what MLX alone",
        "takes to copy the state, compute the new tokens and make one step. Beside `mlx_lm.server`: a cold prompt and the next turn, each server alone on the device. Below 1 is better.",
        "The first conversations after a start also have MLX make its CUDA graphs, of which more is seen the shorter they are.",
        "",
        "| model | tokens of history | warm ÷ cold | warm ÷ limit | cold prompt, ours ÷ theirs | next turn, ours ÷ theirs |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {result['result']['shape']} | {row['length']:,} | {spread(row['warm_to_cold'], digits=3)} | {spread(row['warm_to_limit'])} "
        f"| {_beside(row, 'first_seconds')} | {_beside(row, 'warm_seconds')} |"
        for result in results
        for row in result["result"]["turns"]
    ]
    lines += [
        "",
        *picture(
            "device-turns",
            "Seconds to the first token by length of history, cold and warm, beside mlx_lm.server",
        ),
        f"Decoding through HTTP beside a bare loop over `BatchGenerator` on the same device, {' or '.join(tokens)} tokens a stream, from when all streams have begun to when all have ended; above 1 is better.",
        "A row that is alone in its batch has no mask here, and one of an array there. The rest is mostly the machine: a step is bound by its processor, on which the same work takes once and a half the",
        f"time for seconds. {_rounds(results)} What serving adds is 1 % ([how that was seen](decisions/0017-what-a-token-costs-beside-the-model.md)).",
        "",
        "| model | streams | tokens a second, HTTP ÷ bare |",
        "|---|---|---|",
    ]
    lines += [
        f"| {result['result']['shape']} | {row['streams']} | {spread(row['tokens_per_second_ratio'])} |"
        for result in results
        for row in result["result"]["decoding"]
    ]
    return [*lines, "", machine, ""]


def _rounds(results: Sequence[Result]) -> str:
    """How much the rounds of the bare loop alone differ."""
    apart = [max(row["bare"]) / min(row["bare"]) for each in results for row in each["result"]["decoding"]]
    return f"The fastest round of the bare loop made up to {max(apart):.2f} times as many tokens a second as the slowest."


def median_seconds(row: Result, server: str, what: str) -> float | None:
    """Of a row's conversations with a server, or None where it was not asked."""
    return statistics.median(turn[what] for turn in row[server]) if server in row else None


def _beside(row: Result, what: str) -> str:
    ours, theirs = (median_seconds(row, server, what) for server in (SAMOVAR, MLX_LM))
    return f"{ours / theirs:.2f}" if ours and theirs else ""
