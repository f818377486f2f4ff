"""The standard `process_*` series on platforms where prometheus_client has none, which are all but Linux."""

import resource
from collections.abc import Iterator

import psutil
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric


class PortableProcess:
    """A collector with the names, types and units of prometheus_client's `ProcessCollector`."""

    def __init__(self) -> None:
        self._process = psutil.Process()

    def collect(self) -> Iterator[Metric]:
        """The process as it is now."""
        process = self._process
        with process.oneshot():
            memory = process.memory_info()
            cpu = process.cpu_times()
            started = process.create_time()
        yield GaugeMetricFamily("process_virtual_memory_bytes", "Virtual memory size in bytes.", memory.vms)
        yield GaugeMetricFamily("process_resident_memory_bytes", "Resident memory size in bytes.", memory.rss)
        yield GaugeMetricFamily(
            "process_start_time_seconds", "Start time of the process since unix epoch in seconds.", started
        )
        yield CounterMetricFamily(
            "process_cpu_seconds_total",
            "Total user and system CPU time spent in seconds.",
            cpu.user + cpu.system,
        )
        yield GaugeMetricFamily(
            "process_open_fds", "Number of open file descriptors.", float(process.num_fds())
        )
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        yield GaugeMetricFamily("process_max_fds", "Maximum number of open file descriptors.", float(most))


def register_process(registry: CollectorRegistry) -> None:
    """Register prometheus_client's collector where it has anything to say here, and else ours."""
    standard = ProcessCollector(registry=None)
    registry.register(standard if any(True for _ in standard.collect()) else PortableProcess())
