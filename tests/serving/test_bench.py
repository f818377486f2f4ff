"""`samovar bench`, run against our server and against mlx-lm's, as an operator runs it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from app.cli import main
from app.commands.arguments import FAILED, MISUSED
from benchmarks.servers import mlx_lm
from tests.support.ports import free_port
from tests.support.process import clean_environment, samovar, total

QUICK = ("--quick", "--words", "20")


def bench(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command, to its end."""
    return subprocess.run(
        [sys.executable, "-m", "app", "bench", *arguments],
        env=clean_environment(PYTHONPATH=str(Path.cwd()), **environment),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def measured(url: str, folder: Path, *more: str) -> tuple[str, dict[str, Any]]:
    """What it prints, and what it writes."""
    file = folder / "result.json"
    ran = bench(url, *QUICK, "--json", str(file), *more)
    assert ran.returncode == 0, ran.stderr
    told: dict[str, Any] = json.loads(file.read_text())
    return ran.stdout, told


def cached(told: dict[str, Any]) -> list[int]:
    """Cached tokens of the turns of the one conversation of a quick measurement."""
    (talk,) = told["measured"]["talks"]
    return [turn["cached_tokens"] for turn in talk]


def check_whole(printed: str, told: dict[str, Any]) -> None:
    """Everything was measured, and is on the screen."""
    results = told["results"]
    assert [turn["turn"] for turn in results["turns"]] == [1, 2, 3]
    assert [row["clients"] for row in results["speed"]] == [1, 4]
    assert all(row["tokens_per_second"]["median"] > 0 for row in results["speed"])
    assert results["gaps"]["alone"]["count"] > 0
    assert results["gaps"]["beside"]["max_seconds"]["median"] <= results["gaps"]["prefill_seconds"]["median"]
    assert told["machine"]["versions"]["mlx"]
    assert told["plan"]["rounds"] == 1
    for words in ("a conversation", "tokens a second", "while a long prompt is read", "p99"):
        assert words in printed
    for turn in results["turns"]:
        assert f"{turn['computed_tokens']['median']:.0f}" in printed


@pytest.mark.slow
def test_our_server_is_measured_and_agrees_with_what_was_seen(tmp_path, tiny_folder):
    """What is said to be cached is what the server counts, and later turns compute less than they ask."""
    with samovar("--model", str(tiny_folder("llama")), folder=tmp_path) as server:
        printed, told = measured(f"{server.url}/v1/", tmp_path)
        metrics = server.metrics()

    check_whole(printed, told)
    first, *later = cached(told)
    assert first == 0
    assert all(tokens > 0 for tokens in later)
    assert sum(later) == metrics["samovar_snapshot_reused_tokens_total"]
    assert total(metrics, "samovar_generated_tokens_total") >= sum(
        row["tokens"] for row in told["results"]["speed"]
    )


@pytest.mark.slow
def test_another_server_is_measured_by_the_same_command(tmp_path, tiny_folder):
    """mlx-lm's own, which is asked for its model by name."""
    folder = str(tiny_folder("llama"))
    with mlx_lm(folder) as running:
        printed, told = measured(running.server.url, tmp_path, "--model", folder)

    check_whole(printed, told)
    assert told["server"] == {"url": running.server.url, "model": folder}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("nowhere",), "'nowhere' is no address of a server; write it as http://host:port"),
        (("http://127.0.0.1:{free}",), "no server answers at http://127.0.0.1:{free}: "),
        (
            ("http://127.0.0.1:{free}", "--json", "no/such/folder.json"),
            "no/such/folder.json cannot be written: there is no such folder",
        ),
    ],
)
def test_what_cannot_be_measured_is_said_in_a_sentence(arguments, sentence, capsys):
    """One line that says what is wrong, and exit code 1."""
    port = free_port()

    assert main(["bench", *(each.format(free=port) for each in arguments)]) == FAILED

    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    assert line.startswith("samovar: " + sentence.format(free=port))


@pytest.mark.parametrize("wrong", ["0", "x", "1,,2", "-1"])
def test_a_number_of_clients_is_one(wrong, capsys):
    """Anything else makes no sense of the command line."""
    with pytest.raises(SystemExit) as ended:
        main(["bench", "http://127.0.0.1:1", f"--clients={wrong}"])

    assert ended.value.code == MISUSED
    assert "is no number from 1 on" in capsys.readouterr().err
