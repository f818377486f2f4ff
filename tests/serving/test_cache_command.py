"""`samovar cache stats` and `samovar cache reset` against a real server."""

import json
import signal
import subprocess
import sys

import pytest

from tests.support.process import clean_environment, conversation, samovar

ROOT_FLAGS = ("--snapshot-min-prefix-tokens", "4", "--no-snapshot-warmup")


@pytest.fixture(scope="module")
def server(tmp_path_factory, tiny_folder):
    """A server that holds a conversation of two turns."""
    model = ("--model", str(tiny_folder("qwen3_next")))
    with samovar(*model, *ROOT_FLAGS, folder=tmp_path_factory.mktemp("cache")) as server:
        conversation(server.client(), server.model, ["Hello there.", "And again."], session="talk")
        yield server


def command(*argv: str) -> list[str]:
    return [sys.executable, "-m", "app", "cache", *argv]


def run(*argv: str) -> str:
    done = subprocess.run(
        command(*argv),
        env=clean_environment(COLUMNS="100"),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_stats_say_whether_the_capacity_is_right_and_why(server):
    """First the verdict; then what is held, what set each limit, and what happened, in numbers that agree."""
    stats = server.stats()
    out = run("stats", "--url", server.url)
    assert out.startswith("The capacity is enough for 1 conversations of ")
    for row in ("held now", "since the start", "hits", "misses", "evicted", "recommended"):
        assert row in out
    lines = [line.split() for line in out.splitlines() if line]
    (hits,) = (line for line in lines if line[0] == "hits")
    assert hits[1:4] == [str(stats["snapshot_hits"]), "of", str(stats["snapshot_lookups"])]
    assert "(automatic)" in out
    assert f"of {stats['snapshot_max_entries']} (default)" in out


def test_stats_as_json_are_the_routes_own(server):
    """For programs, nothing is rounded or renamed."""
    said = json.loads(run("stats", "--json", "--url", server.url + "/"))
    now = server.stats()
    assert said.keys() == now.keys()
    assert said["snapshot_inserts"] == now["snapshot_inserts"] > 0


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_watching_goes_on_until_interrupted(server, form):
    """It prints again and again, and ends with 130 on SIGINT, as programs do that a person interrupts."""
    watching = subprocess.Popen(
        command("stats", "--watch", *form, "--url", server.url),
        env=clean_environment(COLUMNS="100"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell that starts a program in the background has it ignore SIGINT; a terminal does not.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - it starts none
    )
    assert watching.stdout is not None
    shown: list[str] = []
    while sum("hits" in line for line in shown) < 2:
        shown.append(watching.stdout.readline())
        assert shown[-1], "it ended by itself"
    watching.send_signal(signal.SIGINT)
    _, errors = watching.communicate(timeout=60)
    assert (watching.returncode, errors) == (130, "")


def test_reset_empties_the_store_and_says_what_went(server):
    """Last here: afterwards nothing is held."""
    before = server.stats()
    out = run("reset", "--url", server.url)
    assert out == f"removed {before['snapshot_entries']} snapshots, {before['snapshot_bytes']} bytes\n"
    assert server.stats()["snapshot_entries"] == 0
