"""All metrics wired to a real store and bus, in a registry of their own, read back as a scraper does."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from app.bus import Bus
from app.events import Event
from app.snapshots.capacity import Capacity
from app.snapshots.entry import pack
from app.snapshots.limits import Limits
from app.snapshots.stats import Tally
from app.snapshots.store import SnapshotStore
from app.telemetry.counting import Counting
from app.telemetry.label_values import Sink
from app.telemetry.metrics import Build, Model, declare, render
from app.telemetry.scrape import (
    ScrapedSeries,
    age_reading,
    level_readings,
    limits_reading,
    sizing_reading,
    starts_reading,
    store_reading,
)
from app.telemetry.step_tokens import StepTokens
from app.telemetry.token_gaps import TokenGaps
from app.vocabulary import Origin
from tests.support.clock import ManualClock
from tests.support.snapshots import BUCKET, Block, limits

ROUTES = ("/v1/chat/completions", "/v1/messages")
DECLINE_REASONS = ("history_rewritten", "boundary_too_short")
BUILD = Build(version="1.2.3", python="3.11.9", mlx="0.32.4", mlx_lm="0.32.2")
CONFIG_DIGEST = "0badc0de"
MODEL = Model(name="demo", family="llama", cache_kinds="KVCache")


@dataclass
class Gauges:
    """Levels that a test sets by hand."""

    now_running: int = 0
    now_waiting: int = 0
    limit_running: int = 0
    limit_waiting: int = 0
    last_step: float = 0.0
    memory: Mapping[str, int] = field(
        default_factory=lambda: {"active": 0, "cache": 0, "peak": 0, "limit": 0, "footprint": 0}
    )

    def running(self) -> int:
        return self.now_running

    def waiting(self) -> int:
        return self.now_waiting

    def max_running(self) -> int:
        return self.limit_running

    def max_waiting(self) -> int:
        return self.limit_waiting

    def last_step_unix_seconds(self) -> float:
        return self.last_step

    def device_memory(self) -> Mapping[str, int]:
        return self.memory


Key = tuple[str, frozenset[tuple[str, str]]]


def parse(text: str) -> list[Metric]:
    """The families of a text exposition."""
    return list(text_string_to_metric_families(text))


def parse_openmetrics(text: str) -> list[Metric]:
    """The families of an OpenMetrics exposition, exemplars included."""
    return list(openmetrics.text_string_to_metric_families(text))


class MetricsRoom:
    """What the wiring does, with the parts a test wants to see in the open."""

    def __init__(self, store_limits: Limits | None = None, gauges: Gauges | None = None) -> None:
        self.registry = CollectorRegistry()
        self.clock = ManualClock()
        self.gauges = gauges or Gauges()
        self.tally = Tally()
        self.gaps = TokenGaps()
        self.step_tokens = StepTokens()
        self.capacity = Capacity(self.clock)
        self.instruments = declare(
            self.registry,
            build=BUILD,
            config_digest=CONFIG_DIGEST,
            routes=ROUTES,
            decline_reasons=DECLINE_REASONS,
        )
        self.instruments.set_model(MODEL)
        self.counting = Counting(self.instruments)
        self.bus = Bus([(Sink.TALLY, self.tally), (Sink.METRICS, self.counting), ("capacity", self.capacity)])
        self.store: SnapshotStore[Block] = SnapshotStore(
            store_limits or limits(), clock=self.clock, emit=self.bus.publish
        )
        self.dropped_spans = 0
        self.registry.register(self.gaps)
        self.registry.register(self.step_tokens)
        self.registry.register(
            ScrapedSeries(
                (
                    store_reading(self.tally.read),
                    limits_reading(lambda: self.store.limits),
                    sizing_reading(self.capacity.recommendation),
                    age_reading(self.tally.read, self.clock),
                    *level_readings(self.gauges),
                    starts_reading(lambda: 0, lambda: False),
                ),
                drops=(self.bus.failures, lambda: {Sink.TRACES: self.dropped_spans}),
            )
        )

    def hear(self, *events: Event) -> None:
        """Publish events that are not the store's."""
        for event in events:
            self.bus.publish(event)
        assert not any(self.bus.failures().values())

    def put(self, *tokens: int, session: str = "s", nbytes: int = 1) -> None:
        """Insert a boundary snapshot of two arrays."""
        self.store.insert(
            bucket=BUCKET,
            session=session,
            origin=Origin.BOUNDARY,
            tokens=pack(tokens),
            payload=Block(nbytes, arrays=2),
        )

    def look_up(self, *tokens: int, session: str = "s") -> None:
        """Find, and conclude as an engine does whose restores always work."""
        found = self.store.find(bucket=BUCKET, session=session, tokens=pack(tokens))
        if found.candidates:
            self.store.hit(found, found.candidates[0])
        else:
            self.store.miss(found)

    def text(self, accept: str = "") -> str:
        """What a scrape gets."""
        return render(self.registry, accept)[0].decode()

    def scrape(self) -> dict[Key, float]:
        """Every sample by name and labels."""
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in parse(self.text())
            for sample in family.samples
        }

    def value(self, name: str, **labels: str) -> float:
        """One sample of a scrape."""
        return self.scrape()[name, frozenset(labels.items())]

    def total(self, name: str) -> float:
        """The sum of a name over all its labels."""
        return total(self.scrape(), name)


def total(samples: Mapping[Key, float], name: str) -> float:
    """The sum of a name over all its labels."""
    return sum(value for (each, _), value in samples.items() if each == name)
