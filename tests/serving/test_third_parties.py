"""Other people's clients, unmodified, against a real server: they talk, call tools, and see cached tokens."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.client_programs import client_commands, run_client
from tests.support.process import Samovar, samovar
from tests.support.tool_talk import ANSWER, QUESTION, TOWNS, make_calling_model

PROGRAMS = Path(__file__).with_name("clients")
ASKED = str(QUESTION["content"])

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def clients() -> Path:
    """The folder of the clients' commands."""
    return client_commands()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Samovar]:
    """A server of a model that calls the tool once for each town."""
    root = tmp_path_factory.mktemp("clients")
    folder = make_calling_model(root / "model", "lfm2", "hermes")
    with samovar("--model", str(folder), "--trust-remote-code", folder=root) as server:
        yield server


@pytest.fixture
def alone(server: Samovar) -> Samovar:
    """The server with an empty store, so that what is cached comes of the test's own conversation."""
    httpx.post(f"{server.url}/v1/cache/reset").raise_for_status()
    return server


@pytest.mark.parametrize("program", ["with_langchain.py", "with_litellm.py"])
def test_a_library_talks_calls_its_tool_and_counts_what_was_cached(clients, alone, program, tmp_path):
    """Streamed: every call comes through, so does the answer, and each step after the first is warm."""
    told = run_client(clients / "python", PROGRAMS / program, alone.url, alone.model, ASKED, home=tmp_path)
    said = json.loads(told.stdout.splitlines()[-1])

    assert said["called"] == list(TOWNS)
    assert said["answer"].strip() == ANSWER
    first, *later = said["cached"]
    assert first == 0
    assert len(later) == len(TOWNS) + 1
    assert all(tokens > 0 for tokens in later), later


def test_the_llm_command_talks_calls_its_tool_and_shows_what_was_cached(clients, alone, tmp_path):
    """In a terminal: the tool loop of one prompt, then a second turn that goes on with the first."""
    models = tmp_path / "extra-openai-models.yaml"
    models.write_text(
        f"- model_id: mine\n  model_name: {alone.model}\n  api_base: {alone.url}/v1\n  supports_tools: true\n"
    )

    def llm(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return run_client(
            *("env", f"LLM_USER_PATH={tmp_path}", clients / "llm", "-m", "mine", "-u"),
            *("-o", "temperature", "0", *arguments),
            home=tmp_path,
        )

    tool = ("--functions", PROGRAMS / "weather.py")
    first = llm(*tool, ASKED)
    second = llm("-c", *tool, "-o", "max_tokens", "4", "Thank you.")

    assert ANSWER in first.stdout
    assert cached_tokens(second.stderr) > 0


def cached_tokens(usage: str) -> int:
    """What `llm -u` says of them."""
    found = re.search(r'"cached_tokens": (\d+)', usage)
    assert found, usage
    return int(found[1])
