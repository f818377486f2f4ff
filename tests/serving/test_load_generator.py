"""A load generator of others, unmodified, against a real server: its report says what /metrics says."""

import json
import re
import shlex
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest

from tests.shape.documents import DOCS
from tests.support.client_programs import client_commands, run_client
from tests.support.process import labelled, samovar, total
from tests.support.tiny import SPECIAL_TOKENS

ROUTE = "/v1/chat/completions"
FIRST_TOKEN = "samovar_time_to_first_token_seconds"
GAPS = "samovar_inter_token_latency_seconds"
PROMPT, REPLY = "samovar_prompt_tokens_total", "samovar_generated_tokens_total"

SPECIAL_IDS = range(256, 256 + len(SPECIAL_TOKENS))
"""Of the tiny model: neither may end a reply, nor come in it and show no text."""

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Load:
    """One run of the command of docs/clients.md.

    `report`: its own. `scraped`: what it read of /metrics meanwhile. `added`: by what each sample of
    /metrics grew. `conversations` and `turns`: how many it was told to have.
    """

    report: dict[str, Any]
    scraped: dict[str, Any]
    added: dict[str, float]
    conversations: int
    turns: int

    def reported(self, metric: str, of: str = "avg") -> float:
        """A number of the report; a metric that is a single number has it as its average."""
        number: float = self.report[metric][of]
        return number

    def rose(self, series: str) -> float:
        """By how much a series grew, over all its labels."""
        return total(self.added, series)


def documented_command() -> list[str]:
    """The command of docs/clients.md, as a shell reads it."""
    found = re.search(
        r"^```sh\n(aiperf .*?)^```$", (DOCS / "clients.md").read_text(), re.MULTILINE | re.DOTALL
    )
    assert found
    return shlex.split(found[1].replace("\\\n", " "))


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory, tiny_folder) -> Load:
    """The documented load on a tiny hybrid model, whose state serves as a whole or not at all."""
    root, model = tmp_path_factory.mktemp("load"), tiny_folder("lfm2")
    program, *arguments = documented_command()
    options = dict(pairwise(arguments))
    with samovar("--model", str(model), folder=root) as server:
        own = {
            "--url": server.url,
            "--model": server.model,
            "--tokenizer": str(model),
            "--artifact-dir": str(root / "artifacts"),
            "--extra-inputs": json.dumps({"temperature": 0, "logit_bias": dict.fromkeys(SPECIAL_IDS, -100)}),
        }
        assert own.keys() <= options.keys()
        asked = [own.get(before, argument) for before, argument in pairwise(["", *arguments])]
        before = server.metrics()
        run_client(client_commands() / program, *asked, home=root, seconds=240)
        after = server.metrics()
    return Load(
        report=json.loads((root / "artifacts" / "profile_export_aiperf.json").read_text()),
        scraped=json.loads((root / "artifacts" / "server_metrics_export.json").read_text()),
        added={series: value - before[series] for series, value in after.items()},
        conversations=int(options["--conversation-num"]),
        turns=int(options["--conversation-turn-mean"]),
    )


def test_every_request_is_answered_and_counted(load):
    """No error on either side, and as many requests as were to be made."""
    requests = load.conversations * load.turns

    assert load.report["error_summary"] == []
    assert load.report["is_complete"]
    assert not load.report["was_cancelled"]
    assert load.reported("request_error_rate") == 0
    assert load.reported("request_count") == load.reported("completed_request_count") == requests
    assert load.added[labelled("samovar_requests_total", outcome="completed", route=ROUTE)] == requests
    assert load.rose("samovar_requests_total") == requests


def test_both_count_the_same_tokens(load):
    """Of prompts, of what came out of the store, and of replies, each as long as asked."""
    cached = load.added[labelled(PROMPT, source="cached")]

    assert load.reported("total_isl") == load.reported("total_usage_prompt_tokens") == load.rose(PROMPT)
    assert load.reported("total_usage_prompt_cache_read_tokens") == cached
    assert load.reported("total_osl") == load.reported("total_usage_completion_tokens") == load.rose(REPLY)
    assert load.reported("osl_mismatch_count") == 0


def test_every_turn_after_the_first_is_warm(load):
    """Each conversation is a session, and so many of them at a time cost none its state."""
    hits = load.added[labelled("samovar_snapshot_lookups_total", outcome="hit")]

    assert hits == load.added[labelled(f"{FIRST_TOKEN}_count", cache="hit")]
    assert hits == load.conversations * (load.turns - 1)


def test_what_a_client_waits_for_holds_what_the_engine_took(load):
    """As many times are measured; the client's are longer, for they have the way there and back."""
    requests = load.reported("request_count")
    first, gaps = load.rose(f"{FIRST_TOKEN}_sum"), load.rose(f"{GAPS}_sum")

    assert load.reported("time_to_first_token", "count") == load.rose(f"{FIRST_TOKEN}_count") == requests
    assert load.rose(f"{GAPS}_count") == load.rose(REPLY) - requests
    assert 0 < first <= load.reported("time_to_first_token", "sum") / 1000
    assert 0 < first + gaps <= load.reported("request_latency", "sum") / 1000


def test_what_it_scrapes_itself_is_what_it_counts(load):
    """It finds /metrics and reads it: the totals beside its report are those of the report."""
    assert load.scraped["summary"]["endpoints_successful"] == load.scraped["summary"]["endpoints_configured"]
    for metric, series in (
        ("request_count", "samovar_requests"),
        ("total_isl", "samovar_prompt_tokens"),
        ("total_osl", "samovar_generated_tokens"),
    ):
        counted = sum(one["stats"]["total"] for one in load.scraped["metrics"][series]["series"])
        assert counted == load.reported(metric), series


def test_a_documented_pair_of_names_is_in_both(load):
    """Each row of the page's table names keys of the report and series of /metrics."""
    page = (DOCS / "clients.md").read_text()
    _, table = page.split("| AIPerf's report | `/metrics` |\n")
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("| `")]

    assert len(rows) == 7
    for reported, series in rows:
        assert set(re.findall(r"`([^`]+)`", reported)) <= load.report.keys()
        for name in re.findall(r"`(samovar_\w+)", series):
            assert any(sample.split("{")[0] == name for sample in load.added), name
