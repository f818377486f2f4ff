"""Rounds of a workload on a real server, scraped by a real Prometheus, and what the shipped rules say of it.

The rules' windows are tens of minutes, a round takes tenths of a second. So each round stands for
`MINUTES` of a service's time, and promtool evaluates the rules, as they are shipped, over what Prometheus
scraped after each round. Nothing but the time is stretched. The start of the process, the only point in time
that a rule reads, is put at the beginning.
"""

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grafana.source.alerts import ALERTS
from grafana.source.recordings import RECORDINGS, inlined
from grafana.source.rules import expression
from grafana.source.write import ROOT
from tests.ops.alerts.case import GROUPS
from tests.support.process import Samovar, samovar
from tests.support.prometheus import Prometheus, prometheus, run
from tests.support.promql import names

MINUTES = 4
RULES = ROOT / "ops" / "prometheus" / "samovar.rules.yml"
_READ = sorted(
    frozenset().union(
        *(names(recording.query) for recording in RECORDINGS),
        *(names(inlined(expression(alert))) for alert in ALERTS),
    )
)
_STARTED = "process_start_time_seconds"
_FIRING = 'count by (alertname) (max_over_time(ALERTS{{alertstate="firing"}}[{minutes}m]))'


@dataclass(slots=True)
class Recording:
    """What was scraped after each round: series → values, one a round."""

    rounds: int = 0
    series: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, samples: list[dict[str, Any]]) -> None:
        """Take the samples of one scrape; all have the same series, which are there from the first."""
        for sample in samples:
            labels = dict(sample["metric"])
            name = labels.pop("__name__")
            inner = ",".join(f"{label}={json.dumps(value)}" for label, value in sorted(labels.items()))
            self.series[f"{name}{{{inner}}}"].append(sample["value"][1])
        self.rounds += 1
        assert {len(values) for values in self.series.values()} == {self.rounds}

    def alerts(self, folder: Path) -> set[str]:
        """The alerts that fired at any time of the rounds."""
        return _fired(folder, self._values(), step=MINUTES, minutes=MINUTES * self.rounds, every="1m")

    def alerts_if_it_stays_so(self, folder: Path, *, days: int) -> set[str]:
        """The alerts that fired if nothing happened for so many days after the rounds."""
        hours = days * 24
        held = {series: f"{values.split()[-1]}x{hours}" for series, values in self._values().items()}
        return _fired(folder, held, step=60, minutes=60 * hours, every="1h")

    def _values(self) -> dict[str, str]:
        return {
            series: " ".join("0" if series.startswith(_STARTED) else value for value in values)
            for series, values in self.series.items()
        }


@dataclass(frozen=True, slots=True)
class Watched:
    """A server under a workload, and the Prometheus that scrapes it."""

    server: Samovar
    watcher: Prometheus
    recording: Recording

    def round(self, work: Callable[[Samovar], None]) -> None:
        """Do one round of work, and record the first scrape that was begun after it."""
        work(self.server)
        self.record()

    def record(self) -> None:
        """Record the next scrape."""
        # Of a scrape that came to nothing, on a busy machine, only `up` has a sample.
        (scrape,) = self.watcher.wait_for(f"timestamp(samovar_build_info) > {time.time()}")
        at = float(scrape["value"][1])
        self.recording.add(self.watcher.query(f'{{__name__=~"{"|".join(_READ)}"}}', at))


@contextmanager
def watched(*flags: str, folder: Path) -> Iterator[Watched]:
    """A server with a Prometheus beside it; the first scrape, before any work, is recorded."""
    folder.mkdir()
    with samovar(*flags, folder=folder) as server:
        config = {
            "scrape_configs": [
                {
                    "job_name": "samovar",
                    "scrape_interval": "150ms",
                    "scrape_timeout": "150ms",
                    "static_configs": [{"targets": [server.url.removeprefix("http://")]}],
                }
            ]
        }
        with prometheus(config, folder) as watcher:
            watched = Watched(server, watcher, Recording())
            watcher.wait_for("samovar_build_info")
            watched.record()
            yield watched


def _fired(folder: Path, series: dict[str, str], *, step: int, minutes: int, every: str) -> set[str]:
    """The names of the alerts that promtool says fired, over all the time.

    promtool says what is so only where it was told otherwise, so it is told that nothing fired.
    """
    document = {
        "rule_files": [str(RULES)],
        "evaluation_interval": every,
        "group_eval_order": GROUPS,
        "tests": [
            {
                "interval": f"{step}m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "promql_expr_test": [
                    {
                        "expr": _FIRING.format(minutes=minutes),
                        "eval_time": f"{minutes}m",
                        "exp_samples": [],
                    }
                ],
            }
        ],
    }
    (folder / "test.yml").write_text(json.dumps(document))
    done = run("promtool", "test", "rules", "test.yml", folder=folder)
    said = done.stdout + done.stderr
    assert done.returncode == 0 or "exp: nil" in said, said
    return {name for name in (alert.name for alert in ALERTS) if f'alertname="{name}"' in said}
