"""Makes the series that are fed as things happen, and writes a registry out. It decides nothing about events.

Series that are read at scrape are in `scrape.py`.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric

from app.telemetry import catalogue
from app.telemetry.label_values import OTHER, Capability, Departure, Prompt, Reuse
from app.telemetry.process import register_process
from app.telemetry.series import Series
from app.vocabulary import Outcome, Removal, Warmup


@dataclass(frozen=True, slots=True)
class Build:
    """What is running, as versions."""

    version: str
    python: str
    mlx: str
    mlx_lm: str


@dataclass(frozen=True, slots=True)
class Model:
    """What is served. `cache_kinds` are the kinds of its layers' caches, joined by commas."""

    name: str
    family: str
    cache_kinds: str
    capabilities: frozenset[Capability] = frozenset()


@dataclass(frozen=True, slots=True)
class Instruments:
    """Every series that is fed as things happen, its children made once and present at zero.

    The keys of `requests` and `declines` include `OTHER`.
    """

    size: Histogram
    prefix: Histogram
    divergence: Histogram
    capture: Histogram
    restore: Histogram
    lookup_time: Histogram
    reuse_gap: Histogram
    idle_before_removal: Mapping[Removal, Histogram]
    entry_hits: Mapping[Departure, Histogram]
    declines: Mapping[str, Counter]
    warmups: Mapping[Warmup, Counter]
    warmup_tokens: Counter
    requests: Mapping[tuple[str, Outcome], Counter]
    time_to_first_token: Mapping[Reuse, Histogram]
    queue: Histogram
    prefill: Histogram
    decode: Histogram
    duration: Histogram
    prompt_tokens: Mapping[Prompt, Counter]
    rebuilds: Counter
    model: Gauge
    capability: Mapping[Capability, Gauge]

    def set_model(self, model: Model) -> None:
        """State what is served; what was stated before is withdrawn."""
        self.model.clear()
        self.model.labels(model.name, model.family, model.cache_kinds).set(1)
        for capability, gauge in self.capability.items():
            gauge.set(capability in model.capabilities)


def declare(
    registry: CollectorRegistry,
    *,
    build: Build,
    config_digest: str,
    routes: Collection[str],
    decline_reasons: Collection[str],
) -> Instruments:
    """Register every pushed series of the catalogue, and `process_*` and `python_info`.

    Args:
        registry: where the series go; one registry serves one call.
        build: the labels of `samovar_build_info`.
        config_digest: the label of `samovar_config_info`.
        routes: the route templates of the inference API; any other route is counted under `OTHER`.
        decline_reasons: the reasons for which a capture can be declined; any other goes under `OTHER`.

    Raises:
        ValueError: the registry already holds one of these series.
    """
    register_process(registry)
    PlatformCollector(registry=registry)
    _gauge(catalogue.BUILD, registry).labels(build.version, build.python, build.mlx, build.mlx_lm).set(1)
    _gauge(catalogue.CONFIG, registry).labels(config_digest).set(1)
    idle = _histogram(catalogue.IDLE_BEFORE_REMOVAL, registry)
    entry_hits = _histogram(catalogue.ENTRY_HITS, registry)
    declines = _counter(catalogue.DECLINES, registry)
    warmups = _counter(catalogue.WARMUPS, registry)
    warmup_tokens = _counter(catalogue.WARMUP_TOKENS, registry)
    requests = _counter(catalogue.REQUESTS, registry)
    first_token = _histogram(catalogue.TIME_TO_FIRST_TOKEN, registry)
    prompt_tokens = _counter(catalogue.PROMPT_TOKENS, registry)
    capability = _gauge(catalogue.CAPABILITY, registry)
    return Instruments(
        size=_histogram(catalogue.SIZE, registry),
        prefix=_histogram(catalogue.PREFIX, registry),
        divergence=_histogram(catalogue.DIVERGENCE, registry),
        capture=_histogram(catalogue.CAPTURE, registry),
        restore=_histogram(catalogue.RESTORE, registry),
        lookup_time=_histogram(catalogue.LOOKUP_TIME, registry),
        reuse_gap=_histogram(catalogue.REUSE_GAP, registry),
        entry_hits={cause: entry_hits.labels(cause.value) for cause in Departure},
        idle_before_removal={reason: idle.labels(reason.value) for reason in Removal},
        declines={reason: declines.labels(reason) for reason in _with_other(decline_reasons)},
        warmups={outcome: warmups.labels(outcome.value) for outcome in Warmup},
        warmup_tokens=warmup_tokens,
        requests={
            (route, outcome): requests.labels(route, outcome.value)
            for route in _with_other(routes)
            for outcome in Outcome
        },
        time_to_first_token={reuse: first_token.labels(reuse.value) for reuse in Reuse},
        queue=_histogram(catalogue.QUEUE, registry),
        prefill=_histogram(catalogue.PREFILL, registry),
        decode=_histogram(catalogue.DECODE, registry),
        duration=_histogram(catalogue.DURATION, registry),
        prompt_tokens={source: prompt_tokens.labels(source.value) for source in Prompt},
        rebuilds=_counter(catalogue.REBUILDS, registry),
        model=_gauge(catalogue.MODEL, registry),
        capability={each: capability.labels(each.value) for each in Capability},
    )


def render(registry: CollectorRegistry, accept_header: str) -> tuple[bytes, str]:
    """The registry as text and its content type: OpenMetrics with exemplars if asked for, else text 0.0.4."""
    encode, content_type = choose_encoder(accept_header)
    return encode(_WithoutCreated(registry)), content_type


class _WithoutCreated:
    """A registry without its `_created` samples: they double the series and say what nobody asks.

    prometheus_client can leave them out for the whole process only; this leaves other registries alone.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric


def _with_other(values: Iterable[str]) -> tuple[str, ...]:
    return (*values, OTHER)


def _counter(series: Series, registry: CollectorRegistry) -> Counter:
    return Counter(series.name, series.help, series.label_names, unit=series.unit, registry=registry)


def _gauge(series: Series, registry: CollectorRegistry) -> Gauge:
    return Gauge(series.name, series.help, series.label_names, unit=series.unit, registry=registry)


def _histogram(series: Series, registry: CollectorRegistry) -> Histogram:
    return Histogram(
        series.name,
        series.help,
        series.label_names,
        unit=series.unit,
        registry=registry,
        buckets=series.buckets,
    )
