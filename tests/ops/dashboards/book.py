"""The numbers a server would expose, kept by hand: every series of the catalogue, at zero until it is fed.

It knows the catalogue and nothing of what makes the numbers.
"""

from collections.abc import Iterator
from itertools import product

from prometheus_client.utils import floatToGoString

from app.telemetry.catalogue import CATALOGUE, DECLINE, ROUTE
from app.telemetry.series import Kind, Label, Series

OPEN_LABELS = {
    ROUTE.name: ("/v1/chat/completions", "/v1/completions", "other"),
    DECLINE.name: ("history_not_a_prefix", "history_not_rendered", "other"),
}
"""Values of the labels that whoever starts the server names, and that are there from the beginning."""

Sample = tuple[str, tuple[tuple[str, str], ...], float]


class Book:
    """Counters, gauges and histograms by series and label values."""

    def __init__(self) -> None:
        self._values: dict[Series, dict[tuple[str, ...], float]] = {}
        self._buckets: dict[Series, dict[tuple[str, ...], list[int]]] = {}
        for series in CATALOGUE:
            children = list(product(*(_known(label) for label in series.labels)))
            self._values[series] = dict.fromkeys(children, 0.0)
            if series.kind is Kind.HISTOGRAM:
                self._buckets[series] = {child: [0] * (len(series.buckets) + 1) for child in children}

    def add(self, series: Series, amount: float = 1, *labels: str) -> None:
        """Let a counter or a gauge rise."""
        self._values[series][labels] += amount

    def put(self, series: Series, value: float, *labels: str) -> None:
        """Set a gauge."""
        self._values[series][labels] = value

    def observe(self, series: Series, value: float, *labels: str) -> None:
        """Feed a histogram."""
        self._values[series][labels] += value
        counts = self._buckets[series][labels]
        for place, bound in enumerate((*series.buckets, float("inf"))):
            counts[place] += value <= bound

    def samples(self) -> Iterator[Sample]:
        """What a scrape would find now."""
        for series, children in self._values.items():
            for child, value in children.items():
                labels = tuple(zip(series.label_names, child, strict=True))
                if series.kind is not Kind.HISTOGRAM:
                    yield series.name, labels, value
                    continue
                counts = self._buckets[series][child]
                for bound, count in zip((*series.buckets, float("inf")), counts, strict=True):
                    yield f"{series.name}_bucket", (*labels, ("le", floatToGoString(bound))), count
                yield f"{series.name}_sum", labels, value
                yield f"{series.name}_count", labels, counts[-1]


def _known(label: Label) -> tuple[str, ...]:
    """A label's values; none where they come with what is served, such as a model's name."""
    return label.values or OPEN_LABELS.get(label.name, ())
