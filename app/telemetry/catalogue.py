"""The table of every metric: name, type, unit, labels and buckets. It holds no value and knows no registry.

`metrics.py` and `scrape.py` make the series from it; docs/metrics.md is tested against it.
"""

from collections.abc import Iterable
from enum import StrEnum

from app.snapshots.stats import HIT
from app.telemetry.label_values import OTHER, Capability, Departure, Memory, Prompt, Reuse, Sink
from app.telemetry.series import Kind, Label, Series
from app.vocabulary import Growth, Miss, Origin, Outcome, Rejection, Removal, Warmup


def _label(name: str, values: Iterable[StrEnum]) -> Label:
    return Label(name, tuple(value.value for value in values))


ORIGIN = _label("origin", Origin)
REMOVAL = _label("reason", Removal)
REJECTION = _label("reason", Rejection)
LOOKUP = Label("outcome", (HIT, *(miss.value for miss in Miss)))
OUTCOME = _label("outcome", Outcome)
GHOST_CAPACITY = _label("capacity", Growth)
ROUTE = Label("route")
DECLINE = Label("reason")

# A long prompt on a laptop prefills for minutes; buckets that end at ten seconds would hide just that.
REQUEST_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600)
TOKEN_SECONDS = (0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1, 5, 30, 120, 600)
STORE_SECONDS = (1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3, 0.01, 0.05, 0.1, 0.5, 1, 5, 10)
# One axis for both, so that the two curves lie over each other: overlap means that the store is too small.
IDLE_SECONDS = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600)
SIZE_BYTES = tuple(2**power for power in range(20, 36))
TOKENS = tuple(2**power for power in range(5, 21))
HITS = (0, 1, 2, 3, 5, 10, 20, 50)


def _counter(name: str, text: str, *labels: Label, unit: str = "") -> Series:
    return Series(name, Kind.COUNTER, text, unit, labels)


def _gauge(name: str, text: str, *labels: Label, unit: str = "") -> Series:
    return Series(name, Kind.GAUGE, text, unit, labels)


def _histogram(name: str, text: str, buckets: tuple[float, ...], *labels: Label, unit: str = "") -> Series:
    return Series(name, Kind.HISTOGRAM, text, unit, labels, buckets)


INSERTS = _counter("samovar_snapshot_inserts_total", "Snapshots put into the store.", ORIGIN)
INSERTED_BYTES = _counter(
    "samovar_snapshot_inserted_bytes_total",
    "Bytes of the snapshots put into the store.",
    ORIGIN,
    unit="bytes",
)
REMOVALS = _counter("samovar_snapshot_removals_total", "Snapshots that left the store.", REMOVAL)
REMOVED_BYTES = _counter(
    "samovar_snapshot_removed_bytes_total",
    "Bytes of the snapshots that left the store.",
    REMOVAL,
    unit="bytes",
)
SELF_EVICTIONS = _counter(
    "samovar_snapshot_self_evictions_total", "Evictions of live state of the very session that was inserting."
)
REJECTIONS = _counter(
    "samovar_snapshot_rejections_total", "Snapshots that never entered the store.", REJECTION
)
LOOKUPS = _counter("samovar_snapshot_lookups_total", "Lookups by how they ended.", LOOKUP)
LOOKUP_TOKENS = _counter(
    "samovar_snapshot_lookup_tokens_total", "Prompt tokens of all requests, looked up or not.", unit="tokens"
)
REUSED_TOKENS = _counter(
    "samovar_snapshot_reused_tokens_total", "Prompt tokens whose state came out of the store.", unit="tokens"
)
GHOST_HITS = _counter(
    "samovar_snapshot_ghost_hits_total",
    "Misses that would have been hits with so many times the capacity.",
    GHOST_CAPACITY,
)
ENTRIES = _gauge("samovar_snapshot_entries", "Snapshots in the store.", ORIGIN)
BYTES = _gauge("samovar_snapshot_bytes", "Bytes of the snapshots in the store.", ORIGIN, unit="bytes")
ARRAYS = _gauge("samovar_snapshot_arrays", "Device arrays held by the snapshots in the store.")
CAPACITY_BYTES = _gauge("samovar_snapshot_capacity_bytes", "Most bytes the store may hold.", unit="bytes")
MAX_ENTRIES = _gauge("samovar_snapshot_max_entries", "Most snapshots the store may hold.")
TTL_SECONDS = _gauge(
    "samovar_snapshot_ttl_seconds",
    "How long a snapshot may go unused; +Inf where there is no limit.",
    unit="seconds",
)
AVAILABLE_BYTES = _gauge(
    "samovar_snapshot_available_bytes",
    "Most bytes this machine's memory has for the store.",
    unit="bytes",
)
RECOMMENDED_BYTES = _gauge(
    "samovar_snapshot_recommended_bytes",
    "Capacity that holds the conversations there are, as far as memory goes.",
    unit="bytes",
)
WANTED_SESSIONS = _gauge(
    "samovar_snapshot_wanted_sessions", "Conversations that the recommended capacity is for."
)
OLDEST_AGE = _gauge(
    "samovar_snapshot_oldest_age_seconds",
    "Time since the least recently used snapshot was used.",
    unit="seconds",
)
SIZE = _histogram("samovar_snapshot_size_bytes", "Size of a snapshot put in.", SIZE_BYTES, unit="bytes")
PREFIX = _histogram(
    "samovar_snapshot_prefix_tokens", "Tokens a snapshot put in describes.", TOKENS, unit="tokens"
)
DIVERGENCE = _histogram(
    "samovar_snapshot_divergence_tokens",
    "Tokens a diverged prompt shared with the nearest snapshot.",
    TOKENS,
    unit="tokens",
)
CAPTURE = _histogram(
    "samovar_snapshot_capture_seconds",
    "Time to copy model state out of a batch.",
    STORE_SECONDS,
    unit="seconds",
)
RESTORE = _histogram(
    "samovar_snapshot_restore_seconds",
    "Time to copy a snapshot back for a request.",
    STORE_SECONDS,
    unit="seconds",
)
LOOKUP_TIME = _histogram(
    "samovar_snapshot_lookup_seconds", "Time of one lookup in the store.", STORE_SECONDS, unit="seconds"
)
REUSE_GAP = _histogram(
    "samovar_snapshot_reuse_gap_seconds",
    "Time a snapshot lay unused before a hit.",
    IDLE_SECONDS,
    unit="seconds",
)
IDLE_BEFORE_REMOVAL = _histogram(
    "samovar_snapshot_idle_before_removal_seconds",
    "Time a snapshot lay unused before it left the store.",
    IDLE_SECONDS,
    REMOVAL,
    unit="seconds",
)
ENTRY_HITS = _histogram(
    "samovar_snapshot_entry_hits",
    "How often a snapshot was used before it left the store.",
    HITS,
    _label("cause", Departure),
)
DECLINES = _counter("samovar_capture_declines_total", "Requests that got no boundary snapshot.", DECLINE)
WARMUPS = _counter(
    "samovar_warmups_total", "Next turns prepared after a reply, or why not.", _label("outcome", Warmup)
)
WARMUP_TOKENS = _counter("samovar_warmup_tokens_total", "Tokens computed for next turns.", unit="tokens")

REQUESTS = _counter("samovar_requests_total", "Requests by route and by how they ended.", ROUTE, OUTCOME)
RUNNING = _gauge("samovar_requests_running", "Requests in prefill or decode.")
WAITING = _gauge("samovar_requests_waiting", "Requests waiting for a place.")
MAX_RUNNING = _gauge("samovar_requests_max_running", "Most requests in prefill or decode at a time.")
MAX_WAITING = _gauge("samovar_requests_max_waiting", "Most requests that may wait for a place.")
TIME_TO_FIRST_TOKEN = _histogram(
    "samovar_time_to_first_token_seconds",
    "Time from a request's arrival at the engine to its first token.",
    REQUEST_SECONDS,
    _label("cache", Reuse),
    unit="seconds",
)
INTER_TOKEN_LATENCY = _histogram(
    "samovar_inter_token_latency_seconds",
    "Time between two tokens of one reply.",
    TOKEN_SECONDS,
    unit="seconds",
)
QUEUE = _histogram(
    "samovar_request_queue_seconds", "Time a request waited for a place.", REQUEST_SECONDS, unit="seconds"
)
PREFILL = _histogram(
    "samovar_request_prefill_seconds",
    "Time from a place to the first token.",
    REQUEST_SECONDS,
    unit="seconds",
)
DECODE = _histogram(
    "samovar_request_decode_seconds",
    "Time from the first token to the last.",
    REQUEST_SECONDS,
    unit="seconds",
)
DURATION = _histogram(
    "samovar_request_duration_seconds",
    "Time to answer a request that was run.",
    REQUEST_SECONDS,
    unit="seconds",
)
PROMPT_TOKENS = _counter(
    "samovar_prompt_tokens_total",
    "Prompt tokens of requests that reached their first token.",
    _label("source", Prompt),
    unit="tokens",
)
PREFILL_TOKENS = _counter(
    "samovar_prefill_tokens_total", "Prompt tokens computed, as each chunk ends.", unit="tokens"
)
GENERATED_TOKENS = _counter(
    "samovar_generated_tokens_total", "Tokens of replies, as each step ends.", unit="tokens"
)

DEVICE_MEMORY = _gauge("samovar_device_memory_bytes", "Device memory.", _label("kind", Memory), unit="bytes")
REBUILDS = _counter(
    "samovar_engine_rebuilds_total", "Steps that raised, after which the batch was made anew."
)
LAST_STEP = _gauge(
    "samovar_engine_last_step_timestamp_seconds",
    "Unix time at which the last engine step ended.",
    unit="seconds",
)
DROPPED = _counter(
    "samovar_telemetry_dropped_total",
    "Events, readings and spans that a sink lost.",
    Label("sink", (*_label("sink", Sink).values, OTHER)),
)
BUILD = _gauge(
    "samovar_build_info", "Always 1; what is running.", *map(Label, ("version", "python", "mlx", "mlx_lm"))
)
CONFIG = _gauge("samovar_config_info", "Always 1; the digest changes with any setting.", Label("digest"))
MODEL = _gauge(
    "samovar_model_info", "Always 1; what is served.", *map(Label, ("model", "family", "cache_kinds"))
)
CAPABILITY = _gauge(
    "samovar_model_capability",
    "1 where the check at the model's load found that it can be relied on.",
    _label("capability", Capability),
)
STARTS_RECENT = _gauge(
    "samovar_starts_recent",
    "Starts within server.crash_loop_seconds that have not ended well, this one included.",
)
CRASH_LOOP = _gauge(
    "samovar_crash_loop", "1 while the model is not loaded because the starts before crashed."
)

CATALOGUE: tuple[Series, ...] = (
    *(INSERTS, INSERTED_BYTES, REMOVALS, REMOVED_BYTES, SELF_EVICTIONS, REJECTIONS),
    *(LOOKUPS, LOOKUP_TOKENS, REUSED_TOKENS, GHOST_HITS, ENTRIES, BYTES, ARRAYS),
    *(CAPACITY_BYTES, MAX_ENTRIES, TTL_SECONDS),
    *(AVAILABLE_BYTES, RECOMMENDED_BYTES, WANTED_SESSIONS, OLDEST_AGE),
    *(SIZE, PREFIX, DIVERGENCE, CAPTURE, RESTORE, LOOKUP_TIME, REUSE_GAP, IDLE_BEFORE_REMOVAL),
    *(ENTRY_HITS, DECLINES, WARMUPS, WARMUP_TOKENS),
    *(REQUESTS, RUNNING, WAITING, MAX_RUNNING, MAX_WAITING, TIME_TO_FIRST_TOKEN, INTER_TOKEN_LATENCY),
    *(QUEUE, PREFILL, DECODE, DURATION, PROMPT_TOKENS, PREFILL_TOKENS, GENERATED_TOKENS),
    *(DEVICE_MEMORY, REBUILDS, LAST_STEP, DROPPED, BUILD, CONFIG, MODEL, CAPABILITY),
    *(STARTS_RECENT, CRASH_LOOP),
)
"""Every series of ours, in the order of docs/metrics.md."""
