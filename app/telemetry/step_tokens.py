"""The counters of tokens that rise while requests run, cheap enough to be fed at every engine step."""

from collections.abc import Iterator

from prometheus_client.metrics_core import CounterMetricFamily, Metric

from app.telemetry.catalogue import GENERATED_TOKENS, PREFILL_TOKENS


class StepTokens:
    """A collector with one writer, the engine thread, and any number of scrapes.

    It takes no lock: each count is one attribute that only the writer changes, and never down.
    """

    def __init__(self) -> None:
        self._prefilled = 0
        self._generated = 0

    def record(self, prefilled: int, generated: int) -> None:
        """A step computed `prefilled` prompt tokens and gave `generated` tokens to replies."""
        self._prefilled += prefilled
        self._generated += generated

    def describe(self) -> Iterator[Metric]:
        """The families without samples."""
        for series in (PREFILL_TOKENS, GENERATED_TOKENS):
            yield CounterMetricFamily(series.name, series.help, unit=series.unit)

    def collect(self) -> Iterator[Metric]:
        """The counters as they stand."""
        for series, value in ((PREFILL_TOKENS, self._prefilled), (GENERATED_TOKENS, self._generated)):
            yield CounterMetricFamily(series.name, series.help, value=value, unit=series.unit)
