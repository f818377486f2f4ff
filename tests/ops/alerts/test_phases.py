"""What a server's life looks like to its operator: each trouble has its alert, and only that."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.ops.alerts.recording import Recording, Watched, watched
from tests.support.process import Samovar, labelled, total

pytestmark = pytest.mark.slow

FAMILY = "lfm2"
"""A model whose state cannot be cut back: a history that is not continued is lost."""

PEOPLE = 4
ROUNDS = 14
"""Almost an hour, in the time of `recording.MINUTES`."""
TOPIC = "about the tea that steams in the old samovar by the window, and who is to pour it "


@dataclass(slots=True)
class Talk:
    """One conversation, as an ordinary client holds it: every turn sends all that was said."""

    session: str
    subject: str
    messages: list[dict[str, str]] = field(default_factory=list)

    def turn(self, server: Samovar) -> None:
        """Say something, and keep the reply."""
        said = "go on" if self.messages else f"{self.subject} {TOPIC * 5}"
        self.messages.append({"role": "user", "content": said})
        self.messages.append({"role": "assistant", "content": ask(server, self.messages, self.session)})


def ask(server: Samovar, messages: list[dict[str, str]], session: str) -> str:
    """One request; the reply's text."""
    body: dict[str, Any] = {
        "messages": messages,
        "prompt_cache_key": session,
        "max_tokens": 2,
        "temperature": 0,
    }
    answer = httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=60)
    reply: str = answer.raise_for_status().json()["choices"][0]["message"]["content"] or "yes"
    return reply


def by_turns(talks: list[Talk]) -> Callable[[Samovar], None]:
    """A round in which everybody says something, one after the other."""

    def work(server: Samovar) -> None:
        for talk in talks:
            talk.turn(server)

    return work


def people() -> list[Talk]:
    """Several people, each with a session."""
    return [Talk(session=f"person {number}", subject=f"{number}:") for number in range(PEOPLE)]


def branches() -> list[Talk]:
    """One client that holds several conversations in one session."""
    return [Talk(session="one client", subject=f"{number}:") for number in range(PEOPLE)]


@dataclass(frozen=True, slots=True)
class Past:
    """What was recorded of a server, and what it said at last."""

    recording: Recording
    metrics: dict[str, float]
    folder: Path

    def outcome(self, name: str) -> float:
        """Lookups that ended so."""
        return self.metrics[labelled("samovar_snapshot_lookups_total", outcome=name)]

    @property
    def evictions(self) -> float:
        """Snapshots that were pushed out."""
        return sum(
            value
            for name, value in self.metrics.items()
            if name.startswith("samovar_snapshot_removals_total") and ("lru_" in name or "pressure" in name)
        )


class Place:
    """Where servers are watched, one after the other."""

    def __init__(self, model: Path, folder: Path) -> None:
        self.model = model
        self.folder = folder

    def watch(self, name: str, rounds: int, work: Callable[[Samovar], None], *flags: str) -> Past:
        """So many rounds of work on a server of its own."""
        folder = self.folder / name
        with watched(*self.flags, *flags, folder=folder) as room:
            for _ in range(rounds):
                room.round(work)
            return past(room, folder)

    @property
    def flags(self) -> tuple[str, ...]:
        """What every server is started with: warm-ups would depend on how long requests are apart."""
        return ("--model", str(self.model), "--no-snapshot-warmup")


def past(room: Watched, folder: Path) -> Past:
    """What is left of a watched server."""
    return Past(room.recording, room.server.metrics(), folder)


@pytest.fixture(scope="module")
def place(tiny_folder: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A model, and a folder for its servers."""
    return Place(tiny_folder(FAMILY), tmp_path_factory.mktemp("phases"))


@pytest.fixture(scope="module")
def healthy(place: Place) -> Past:
    """Four people talk for almost an hour, with room for all of them."""
    return place.watch("healthy", ROUNDS, by_turns(people()))


@pytest.fixture(scope="module")
def too_small(healthy: Past) -> tuple[str, str]:
    """A capacity for one and a half of the four conversations at their full length, for three at first."""
    entry_bytes = total(healthy.metrics, "samovar_snapshot_bytes") / PEOPLE
    return "--snapshot-capacity-bytes", f"{int(1.5 * entry_bytes)}"


def test_a_healthy_server_has_no_alert(healthy: Past) -> None:
    """Every turn after the first hits, each supersedes the one before, and nothing is told."""
    assert healthy.outcome("hit") == (ROUNDS - 1) * PEOPLE
    superseded = healthy.metrics[labelled("samovar_snapshot_removals_total", reason="superseded")]
    assert superseded == (ROUNDS - 1) * PEOPLE
    assert healthy.evictions == 0
    assert healthy.recording.alerts(healthy.folder) == set()


@pytest.mark.parametrize(
    ("talks", "alert"),
    [(people, "SamovarCacheThrashing"), (branches, "SamovarCacheBudgetTooSmall")],
    ids=["many people", "one client with many conversations"],
)
def test_a_budget_that_is_too_small_is_told_and_the_recommended_one_is_right(
    place: Place, too_small: tuple[str, str], talks: Callable[[], list[Talk]], alert: str
) -> None:
    """Nothing hits, and its one alert fires; with what it recommends all turns hit, and none does."""
    before = place.watch(f"{alert} before", ROUNDS, by_turns(talks()), *too_small)
    assert before.outcome("hit") == 0
    assert before.evictions > 0
    assert before.recording.alerts(before.folder) == {alert}

    recommended = int(before.metrics["samovar_snapshot_recommended_bytes"])
    assert recommended > int(too_small[1])
    after = place.watch(
        f"{alert} after", ROUNDS, by_turns(talks()), "--snapshot-capacity-bytes", str(recommended)
    )
    assert after.outcome("hit") == (ROUNDS - 1) * PEOPLE
    assert after.evictions == 0
    assert after.recording.alerts(after.folder) == set()
    # And it is not too much either: a week later nobody says that memory lies idle.
    assert after.recording.alerts_if_it_stays_so(after.folder, days=9) == set()


def test_a_client_that_rewrites_its_history_is_told(place: Place) -> None:
    """A counter in the middle of each prompt makes every lookup diverge, and that one alert fires."""
    asked = 0

    def work(server: Samovar) -> None:
        nonlocal asked
        for _ in range(4):
            asked += 1
            ask(server, [{"role": "user", "content": f"{TOPIC} at {asked:06} {TOPIC * 2}"}], "a program")

    seen = place.watch("rewriting", 22, work)
    assert seen.outcome("diverged") == asked - 1
    assert seen.evictions == 0
    assert seen.recording.alerts(seen.folder) == {"SamovarCacheDivergence"}


def test_a_store_that_lies_idle_past_its_time_to_live_is_told_after_a_week(place: Place) -> None:
    """What expired was no eviction: nothing is told of it, but after a week that memory lies idle."""
    folder = place.folder / "idle"
    with watched(*place.flags, "--snapshot-ttl", "2s", folder=folder) as room:
        for _ in range(4):
            room.round(by_turns(people()))
        room.watcher.wait_for("sum(samovar_snapshot_entries) == 0")
        for _ in range(8):
            room.record()
        seen = past(room, folder)
    expired = seen.metrics[labelled("samovar_snapshot_removals_total", reason="ttl")]
    assert expired >= PEOPLE
    assert seen.evictions == 0
    assert seen.recording.alerts(seen.folder) == set()
    assert seen.recording.alerts_if_it_stays_so(seen.folder, days=9) == {"SamovarCacheIdle"}
