"""The histogram of the time between two tokens, cheap enough to be fed at every engine step."""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client.metrics_core import HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString

from app.telemetry.catalogue import INTER_TOKEN_LATENCY as SERIES


class TokenGaps:
    """A collector with one writer, the engine thread, and any number of scrapes.

    It takes no lock: a count is one list item that only the writer changes, and a scrape copies the list in
    one bytecode. The sum may be one step ahead of the counts, never behind.
    """

    def __init__(self) -> None:
        self._counts = [0] * (len(SERIES.buckets) + 1)
        self._sum_seconds = 0.0

    def record(self, seconds: float, tokens: int) -> None:
        """A step ended `seconds` after the one before it, and gave the next token to `tokens` replies."""
        self._sum_seconds += seconds * tokens
        self._counts[bisect_left(SERIES.buckets, seconds)] += tokens

    def describe(self) -> Iterator[Metric]:
        """The family without samples."""
        yield HistogramMetricFamily(SERIES.name, SERIES.help, unit=SERIES.unit)

    def collect(self) -> Iterator[Metric]:
        """The histogram as it stands."""
        counts = accumulate(self._counts.copy())
        bounds = (*map(floatToGoString, SERIES.buckets), "+Inf")
        yield HistogramMetricFamily(
            SERIES.name,
            SERIES.help,
            buckets=list(zip(bounds, counts, strict=True)),
            sum_value=self._sum_seconds,
            unit=SERIES.unit,
        )
