"""The histogram that is fed at every step."""

import threading

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric

from app.telemetry.catalogue import INTER_TOKEN_LATENCY
from app.telemetry.token_gaps import TokenGaps

NAME = "samovar_inter_token_latency_seconds"


def collected(gaps: TokenGaps) -> Metric:
    (family,) = gaps.collect()
    return family


def buckets(gaps: TokenGaps) -> dict[str, float]:
    return {s.labels["le"]: s.value for s in collected(gaps).samples if s.name.endswith("_bucket")}


def test_a_step_counts_once_for_each_token_it_gave():
    """Count and sum weigh a step's time with the replies that waited for it."""
    gaps = TokenGaps()
    registry = CollectorRegistry()
    registry.register(gaps)
    gaps.record(0.02, 8)
    gaps.record(0.5, 2)
    assert registry.get_sample_value(f"{NAME}_count") == 10
    assert registry.get_sample_value(f"{NAME}_sum") == 0.02 * 8 + 0.5 * 2


def test_a_bucket_holds_its_bound_and_all_below_it():
    """Buckets are cumulative and closed above; what is beyond the last bound is in +Inf alone."""
    gaps = TokenGaps()
    for bound in INTER_TOKEN_LATENCY.buckets:
        gaps.record(bound, 1)
    gaps.record(10_000.0, 1)
    expected = list(range(1, len(INTER_TOKEN_LATENCY.buckets) + 2))
    assert list(buckets(gaps).values()) == expected
    assert list(buckets(gaps))[-1] == "+Inf"


def test_a_scrape_between_two_steps_is_a_proper_histogram():
    """However a scrape falls, buckets ascend and the count is the last of them."""
    gaps = TokenGaps()
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            for seconds in (0.001, 0.04, 0.3, 700.0):
                gaps.record(seconds, 3)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        scrapes = [collected(gaps) for _ in range(300)]
    finally:
        stop.set()
        writer.join()
    for family in scrapes:
        values = [sample.value for sample in family.samples if sample.name == f"{NAME}_bucket"]
        (count,) = (sample.value for sample in family.samples if sample.name == f"{NAME}_count")
        assert values == sorted(values)
        assert count == values[-1]
