"""The closed sets of label values that no event has, and the word for all others. It knows no series."""

from enum import StrEnum

from app.vocabulary import Removal


class Sink(StrEnum):
    """Who may lose telemetry; listeners go by these names on the bus, and any other name is `OTHER` here."""

    TALLY = "tally"
    METRICS = "metrics"
    TRACES = "traces"
    LOGS = "logs"


class Memory(StrEnum):
    """What a number of device memory bytes is about."""

    ACTIVE = "active"
    CACHE = "cache"
    PEAK = "peak"
    LIMIT = "limit"
    FOOTPRINT = "footprint"


class Reuse(StrEnum):
    """Whether a request's prompt, or a part of it, came out of the snapshot store."""

    HIT = "hit"
    MISS = "miss"


class Prompt(StrEnum):
    """Where the model state of a prompt token came from."""

    COMPUTED = "computed"
    CACHED = "cached"


class Departure(StrEnum):
    """Why a snapshot left, as far as it matters for whether keeping it was worth its memory."""

    SUPERSEDED = "superseded"
    EVICTED = "evicted"
    EXPIRED = "expired"
    CLEARED = "cleared"


DEPARTURES = {
    Removal.SUPERSEDED: Departure.SUPERSEDED,
    Removal.REPLACED: Departure.SUPERSEDED,
    Removal.LRU_BYTES: Departure.EVICTED,
    Removal.LRU_ENTRIES: Departure.EVICTED,
    Removal.LRU_ARRAYS: Departure.EVICTED,
    Removal.PRESSURE: Departure.EVICTED,
    Removal.TTL: Departure.EXPIRED,
    Removal.CLEARED: Departure.CLEARED,
}


class Capability(StrEnum):
    """What a model may turn out not to be good for."""

    REUSE = "reuse"
    TRUNCATION = "truncation"
    BATCHED_PREFILL = "batched_prefill"
    BATCHED_DECODE = "batched_decode"


OTHER = "other"
"""What a label value outside its closed set is counted under, so that no input can add a series."""
