"""Turns scrapes that were made up into the blocks of a real Prometheus."""

import contextlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from app.telemetry.catalogue import CATALOGUE
from app.telemetry.series import Kind
from tests.ops.dashboards.book import Sample
from tests.support.prometheus import Prometheus, prometheus, told

JOB = "samovar"

History = Iterable[tuple[float, list[Sample]]]
"""(unix seconds, what was scraped then)."""

_COUNTERS = {series.name for series in CATALOGUE if series.kind is Kind.COUNTER} | {
    "process_cpu_seconds_total"
}


def write_blocks(folder: Path, histories: dict[str, History]) -> None:
    """Write blocks below `folder` from histories by instance."""
    lines: dict[str, list[str]] = defaultdict(list)
    for instance, history in histories.items():
        target = (("job", JOB), ("instance", instance))
        for at, samples in history:
            for name, labels, value in samples:
                inner = ",".join(f'{key}="{word}"' for key, word in (*labels, *target))
                lines[name].append(f"{name}{{{inner}}} {value} {at:.0f}")
    source = folder / "history.om"
    with source.open("w") as file:
        for name, samples_of_name in lines.items():
            if name in _COUNTERS:
                file.write(f"# TYPE {name.removesuffix('_total')} counter\n")
            file.write("\n".join(samples_of_name) + "\n")
        file.write("# EOF\n")
    told(
        "promtool", "tsdb", "create-blocks-from", "openmetrics", "--quiet", str(source), str(folder / "tsdb")
    )


@contextlib.contextmanager
def remembering(folder: Path, histories: dict[str, History]) -> Iterator[Prometheus]:
    """A ready Prometheus that scrapes nothing and remembers these histories by instance."""
    write_blocks(folder, histories)
    with prometheus({}, folder, "--storage.tsdb.retention.time=10y") as server:
        yield server
