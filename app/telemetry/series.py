"""What a metric is described by: name, type, unit, labels and buckets. It knows no metric of ours."""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The Prometheus type of a series."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Label:
    """A label and all values it can take. `values` is empty where whoever starts the server names them."""

    name: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Series:
    """One metric as it is exposed. `buckets`: a histogram's upper bounds, in the unit, without +Inf."""

    name: str
    kind: Kind
    help: str
    unit: str = ""
    labels: tuple[Label, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def label_names(self) -> tuple[str, ...]:
        """The names of the labels, in order."""
        return tuple(label.name for label in self.labels)
