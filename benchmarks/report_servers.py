"""The sections of docs/benchmarks.md on budgets, llama.cpp, the event loop, starts and idleness."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.servers import LLAMA_CPP, MLX_LM, SAMOVAR

Result = Mapping[str, Any]


def picture(name: str, says: str) -> list[str]:
    """A picture for light and for dark pages."""
    folder = "pictures/benchmarks"
    return [
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="{folder}/{name}-dark.png">',
        f'<img alt="{says}" src="{folder}/{name}-light.png"></picture>',
        "",
    ]


def spread(values: Mapping[str, float], *, digits: int = 2) -> str:
    """A median, with the smallest and the largest."""
    return f"{values['median']:.{digits}f} ({values['min']:.{digits}f} to {values['max']:.{digits}f})"


def budget(result: Result, machine: str) -> list[str]:
    """k conversations over so many snapshots."""
    options = result["options"]
    lines = [
        "## Several conversations over a fixed budget, beside `mlx_lm.server`",
        "",
        f"{options['conversations']} conversations of {options['turns']} turns take turns, in an order that is random and the same for both, on a tiny random hybrid model ({options['family']}), whose state",
        "serves as a whole or not at all. The budget is a number of snapshots (`--snapshot-max-entries`, `--prompt-cache-size`). What of all prompts was",
        "computed, and how many turns after a conversation's first found any of it. These are counts: they are the same on every machine. With one snapshot each, next turns that were",
        "prepared while there was room stand in the way of conversations that begin later; the size that the server recommends counts two.",
        "",
        "| snapshots | of each conversation | computed, ours | theirs | turns that hit, ours | theirs |",
        "|---|---|---|---|---|---|",
    ]
    for row in result["results"]:
        ours, theirs = row["servers"][SAMOVAR], row["servers"][MLX_LM]
        lines.append(
            f"| {row['budget']} | {row['budget'] / options['conversations']:g} | {_computed(ours)} | {_computed(theirs)} "
            f"| {_hits(ours)} | {_hits(theirs)} |"
        )
    shown = picture("budget", "Share of prompt tokens computed, and of turns that hit, by snapshots of room")
    return [*lines, "", *shown, machine, ""]


def peer(result: Result, machine: str) -> list[str]:
    """Everything beside llama.cpp."""
    options, weights = result["options"], result["weights_bytes"]
    lines = [
        f"## Beside {LLAMA_CPP}",
        "",
        f"The same model from one GGUF file: {LLAMA_CPP} runs its 4-bit weights as they lie there, ours are the same made dense, in float32: {weights[SAMOVAR] / weights[LLAMA_CPP]:.1f} times as many bytes to read",
        f"for each token. Its server is that of the wheel {result['peer']}, built for any processor. Streamed chat completions of {options['max_tokens']} tokens to prompts of about",
        f"{options['words']} words, {options['pairs']} paired rounds.",
        "",
        "| clients | tokens a second, ours ÷ theirs | time to first token of a cold prompt, ours ÷ theirs |",
        "|---|---|---|",
    ]
    lines += [
        f"| {row['clients']} | {spread(row['throughput_ratio'])} | {spread(row['first_token_ratio'])} |"
        for row in result["clients"]
    ]
    lines += ["", *_who_is_faster(result["clients"]), ""]
    lines += picture("peer-speed", f"Tokens a second and time to first token beside {LLAMA_CPP}, by clients")
    lines += [
        f"A chat of {options['turns']} turns, one at a time, {options['pairs']} pairs: both go on from the state of the turn before.",
        "",
        "| turn | prompt tokens, ours | computed, ours and theirs | time to first token, ours ÷ theirs |",
        "|---|---|---|---|",
    ]
    lines += [_chat_turn(turn) for turn in result["chat"]["turns"]]
    lines += ["", *picture("peer-turns", f"Time to first token by turn, beside {LLAMA_CPP}")]
    lines += [
        f"{options['conversations']} conversations of {options['talk_turns']} turns that take turns, over a budget that holds so many tokens (`--snapshot-capacity-bytes`, `--cache-ram`), in the number type of",
        f"each one's own state: 46,080 bytes a token here, 23,040 in {LLAMA_CPP}. One of the conversations is in the slot in which {LLAMA_CPP} computes, the others are in its cache.",
        "",
        "| room for | tokens | computed, ours | theirs | turns that hit, ours | theirs |",
        "|---|---|---|---|---|---|",
    ]
    for row in result["budgets"]:
        ours, theirs = row["servers"][SAMOVAR], row["servers"][LLAMA_CPP]
        lines.append(
            f"| {row['conversations']:g} of {options['conversations']} | {row['tokens']:,} | {_computed(ours)} | {_computed(theirs)} "
            f"| {_hits(ours)} | {_hits(theirs)} |"
        )
    shown = picture("peer-budget", f"Share of prompt tokens computed by room, beside {LLAMA_CPP}")
    return [*lines, "", *shown, machine, ""]


def _who_is_faster(rows: Sequence[Result]) -> list[str]:
    """What the numbers say, and why."""
    behind = [row["clients"] for row in rows if row["throughput_ratio"]["median"] < 1]
    if not behind:
        return []
    where = ", ".join(map(str, behind))
    return [
        f"At {where} clients {LLAMA_CPP} makes more tokens a second. It reads fewer bytes, and its kernels are written for processors; MLX's are for Metal and CUDA, and its",
        "CPU backend is there so that everything runs without them.",
    ]


def _chat_turn(turn: Result) -> str:
    ours, theirs = turn["servers"][SAMOVAR], turn["servers"][LLAMA_CPP]
    computed = [
        sorted(each["prompt_tokens"] - (each["cached_tokens"] or 0) for each in said)[len(said) // 2]
        for said in (ours, theirs)
    ]
    return (
        f"| {turn['turn']} | {ours[0]['prompt_tokens']} | {computed[0]} and {computed[1]} "
        f"| {spread(turn['first_token_ratio'])} |"
    )


def loop(result: Result, machine: str) -> list[str]:
    """What a token costs the event loop."""
    lines = [
        "## What a token costs the event loop",
        "",
        f"The whole server but for the model, which is replaced by one that says a text, one token a step for every stream; {result['tokens']} tokens a stream. Processor time of",
        "the event loop's thread from the engine's word to the socket. A token that makes no text yet makes no event; a stream's first and last events are counted.",
        "",
        "| streams | microseconds a token | events a token |",
        "|---|---|---|",
    ]
    lines += [
        f"| {row['streams']} | {spread(row['microseconds_a_token'], digits=0)} | {row['events_a_token']:.2f} |"
        for row in result["results"]
    ]
    return [*lines, "", machine, ""]


def decode(result: Result, machine: str) -> list[str]:
    """Decoding through HTTP, beside a bare loop."""
    lines = [
        "## Decoding through HTTP, beside a bare loop over `BatchGenerator`",
        "",
        f"A random llama of 20 million weights, {result['tokens']} tokens a stream, both processes on one and the same core, the clients on another. So small a model",
        "is the hard case: what is not the model weighs more beside it than beside a real one.",
        "",
        "| streams | tokens a second, HTTP ÷ bare | processor time of a token, bare ÷ HTTP |",
        "|---|---|---|",
    ]
    lines += [
        f"| {row['streams']} | {spread(row['tokens_per_second_ratio'])} | {spread(row['processor_ratio'])} |"
        for row in result["results"]
    ]
    return [*lines, "", machine, ""]


def start(result: Result, machine: str) -> list[str]:
    """Starts and idleness."""
    started, idle = result["starts"], result["idle"]
    return [
        "## Start and idleness",
        "",
        f"From the start of the process to ready, beside a Python that imports mlx-lm and loads the same model, {result['pairs']} pairs. The check of the model is in it, or what was",
        f"remembered of it. Idle: no request for {result['idle_seconds']:.0f} seconds, our metrics scraped every 15 seconds.",
        "",
        "| what | ours more than bare, or ours | beside |",
        "|---|---|---|",
        f"| start to ready, seconds | {spread(started['seconds_more'])} | ours ÷ bare: {spread(started['ratio'])} |",
        f"| start to ready, seconds of the processor | {spread(started['processor_seconds_more'])} | |",
        f"| idle, share of one core | {idle[SAMOVAR]:.2%} | `{MLX_LM}`: {idle[MLX_LM]:.2%} |",
        "",
        machine,
        "",
    ]


def _computed(reuse: Result) -> str:
    return f"{reuse['computed_tokens'] / reuse['prompt_tokens']:.0%}"


def _hits(reuse: Result) -> str:
    return f"{reuse['hits']} of {reuse['later_turns']}"
