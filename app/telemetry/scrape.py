"""The series that are read at a scrape: what the store counted, its limits, and the engine's levels.

A reading that fails is counted and logged, and only its own series are absent from that scrape.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol, TypeVar

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from app.clock import Clock
from app.snapshots.limits import Limits
from app.snapshots.sizing import Recommendation
from app.snapshots.stats import TallyReading
from app.telemetry import catalogue
from app.telemetry.label_values import OTHER, Memory, Sink
from app.telemetry.series import Kind, Series
from app.vocabulary import Growth, Origin, Rejection, Removal

L = TypeVar("L", bound=str)

log = logging.getLogger(__name__)

Samples = Mapping[tuple[str, ...], float]
"""Label values, in the order of the series' labels → value."""


class Levels(Protocol):
    """What the engine is like now. A call reads a number at once, never waiting for the engine."""

    def running(self) -> int:
        """Requests in prefill or decode."""
        ...

    def waiting(self) -> int:
        """Requests waiting for a place."""
        ...

    def max_running(self) -> int:
        """Limit of `running`; 0 until the model is loaded."""
        ...

    def max_waiting(self) -> int:
        """Limit of `waiting`."""
        ...

    def last_step_unix_seconds(self) -> float:
        """When the last engine step ended; 0 before the first."""
        ...

    def device_memory(self) -> Mapping[str, int]:
        """`Memory` kind → bytes; kinds that are unknown here are left out."""
        ...


@dataclass(frozen=True, slots=True)
class Reading:
    """One thing to read, and the series that come of it."""

    series: tuple[Series, ...]
    read: Callable[[], Sequence[Samples]]
    """Returns the samples of each of `series`, in their order."""


def store_reading(tally: Callable[[], TallyReading]) -> Reading:
    """The store's counters and what it holds, from one consistent reading of its tally."""

    def read() -> Sequence[Samples]:
        now = tally()
        held = now.occupancy.by_origin
        return (
            _each(Origin, now.inserts),
            _each(Origin, now.inserted_bytes),
            _each(Removal, now.removals),
            _each(Removal, now.removed_bytes),
            _single(now.self_evictions),
            _each(Rejection, now.rejections),
            _each(catalogue.LOOKUP.values, now.lookups),
            _single(now.lookup_tokens),
            _single(now.reused_tokens),
            _each(Growth, now.ghost_hits),
            _each(Origin, {origin: entries for origin, (entries, _) in held.items()}),
            _each(Origin, {origin: nbytes for origin, (_, nbytes) in held.items()}),
            _single(now.occupancy.arrays),
        )

    return Reading(
        (
            *(catalogue.INSERTS, catalogue.INSERTED_BYTES, catalogue.REMOVALS, catalogue.REMOVED_BYTES),
            *(catalogue.SELF_EVICTIONS, catalogue.REJECTIONS, catalogue.LOOKUPS, catalogue.LOOKUP_TOKENS),
            *(
                catalogue.REUSED_TOKENS,
                catalogue.GHOST_HITS,
                catalogue.ENTRIES,
                catalogue.BYTES,
                catalogue.ARRAYS,
            ),
        ),
        read,
    )


def limits_reading(limits: Callable[[], Limits | None]) -> Reading:
    """The limits of the store that is in use; zero while there is none, because the model is being loaded."""

    def read() -> Sequence[Samples]:
        now = limits()
        if now is None:
            return _single(0), _single(0), _single(0)
        # Without a limit nothing is ever older than it: +Inf keeps comparisons true to that, 0 would not.
        ttl_seconds = inf if now.ttl_seconds is None else now.ttl_seconds
        return _single(now.capacity_bytes), _single(now.max_entries), _single(ttl_seconds)

    return Reading((catalogue.CAPACITY_BYTES, catalogue.MAX_ENTRIES, catalogue.TTL_SECONDS), read)


def sizing_reading(recommendation: Callable[[], Recommendation | None]) -> Reading:
    """What the capacity should be; zero while the model is being loaded."""

    def read() -> Sequence[Samples]:
        now = recommendation()
        if now is None:
            return _single(0), _single(0), _single(0)
        return _single(now.available_bytes), _single(now.capacity_bytes), _single(now.sessions)

    return Reading((catalogue.AVAILABLE_BYTES, catalogue.RECOMMENDED_BYTES, catalogue.WANTED_SESSIONS), read)


def age_reading(tally: Callable[[], TallyReading], clock: Clock) -> Reading:
    """How far back the store reaches."""
    return Reading((catalogue.OLDEST_AGE,), lambda: (_single(tally().occupancy.oldest_age_seconds(clock())),))


def level_readings(levels: Levels) -> tuple[Reading, ...]:
    """The engine's levels, each read apart so that one that fails takes no other with it."""

    def memory() -> Sequence[Samples]:
        nbytes = levels.device_memory()
        return ({(kind.value,): nbytes[kind] for kind in Memory if kind in nbytes},)

    return (
        Reading((catalogue.RUNNING,), lambda: (_single(levels.running()),)),
        Reading((catalogue.WAITING,), lambda: (_single(levels.waiting()),)),
        Reading((catalogue.MAX_RUNNING,), lambda: (_single(levels.max_running()),)),
        Reading((catalogue.MAX_WAITING,), lambda: (_single(levels.max_waiting()),)),
        Reading((catalogue.LAST_STEP,), lambda: (_single(levels.last_step_unix_seconds()),)),
        Reading((catalogue.DEVICE_MEMORY,), memory),
    )


def starts_reading(recent: Callable[[], int], held: Callable[[], bool]) -> Reading:
    """What the journal of starts counts, and whether this start is held back for it."""
    return Reading(
        (catalogue.STARTS_RECENT, catalogue.CRASH_LOOP), lambda: (_single(recent()), _single(held()))
    )


class ScrapedSeries:
    """A collector of readings, and of what telemetry itself lost.

    Args:
        readings: what to read, in the order it is exposed.
        drops: each returns what was lost so far by sink name: the bus's failures, the span queue's drops.
    """

    def __init__(self, readings: Sequence[Reading], drops: Sequence[Callable[[], Mapping[str, int]]]) -> None:
        self._readings = tuple(readings)
        self._drops = tuple(drops)
        self._lock = threading.Lock()
        self._failures: Counter[str] = Counter()

    def describe(self) -> Iterator[Metric]:
        """Every family, without samples."""
        for reading in self._readings:
            yield from (_family(series) for series in reading.series)
        yield _family(catalogue.DROPPED)

    def collect(self) -> Iterator[Metric]:
        """Read everything now. Never raises for a reading that does."""
        for reading in self._readings:
            try:
                families = [
                    _filled(series, samples)
                    for series, samples in zip(reading.series, reading.read(), strict=True)
                ]
            except Exception:
                name = reading.series[0].name
                # A broken reading fails at every scrape: one traceback is news, one a scrape is noise.
                if self._count_failure(name) == 1:
                    log.exception("cannot read %s for a scrape; its series are absent", name)
            else:
                yield from families
        yield _filled(catalogue.DROPPED, self._dropped())

    def _count_failure(self, name: str) -> int:
        with self._lock:
            self._failures[name] += 1
            return self._failures[name]

    def _dropped(self) -> Samples:
        with self._lock:
            lost = Counter({Sink.METRICS.value: self._failures.total()})
        for drops in self._drops:
            lost.update(drops())
        known: dict[tuple[str, ...], float] = {(sink.value,): lost[sink] for sink in Sink}
        return {**known, (OTHER,): lost.total() - sum(known.values())}


def _each(values: Iterable[L], counts: Mapping[L, int]) -> Samples:
    return {(str(value),): counts.get(value, 0) for value in values}


def _single(value: float) -> Samples:
    return {(): value}


def _filled(series: Series, samples: Samples) -> Metric:
    family = _family(series)
    for values, value in samples.items():
        family.add_metric(values, value)
    return family


def _family(series: Series) -> CounterMetricFamily | GaugeMetricFamily:
    make = CounterMetricFamily if series.kind is Kind.COUNTER else GaugeMetricFamily
    return make(series.name, series.help, labels=series.label_names, unit=series.unit)
