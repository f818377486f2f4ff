"""The closed sets of words that events are told in, and metrics and spans after them. Knows nothing else."""

from enum import StrEnum


class Origin(StrEnum):
    """Where in a request's life a snapshot was taken."""

    BOUNDARY = "boundary"
    COMPLETION = "completion"
    SYSTEM = "system"


class Removal(StrEnum):
    """Why an entry left the store. Only the `lru_*` reasons and `pressure` are evictions."""

    SUPERSEDED = "superseded"
    REPLACED = "replaced"
    LRU_BYTES = "lru_bytes"
    LRU_ENTRIES = "lru_entries"
    LRU_ARRAYS = "lru_arrays"
    TTL = "ttl"
    PRESSURE = "pressure"
    CLEARED = "cleared"


class Rejection(StrEnum):
    """Why a snapshot never entered the store."""

    OVERSIZED = "oversized"
    TOO_SHORT = "too_short"
    DISABLED = "disabled"
    UNSUPPORTED = "unsupported"
    LOW_MEMORY = "low_memory"


class Miss(StrEnum):
    """Why a request started cold."""

    EMPTY = "empty"
    NO_CANDIDATE = "no_candidate"
    DIVERGED = "diverged"
    TOO_SHORT = "too_short"
    INCOMPATIBLE = "incompatible"
    RESTORE_FAILED = "restore_failed"
    DISABLED = "disabled"
    OPTED_OUT = "opted_out"


class Growth(StrEnum):
    """How many times the store's capacity a larger store would have."""

    HALF_MORE = "1.5x"
    DOUBLE = "2x"
    FOURFOLD = "4x"


class Warmup(StrEnum):
    """What became of the next turn's state after a reply: what was done for it, or why nothing was."""

    RUN = "run"
    PREEMPTED = "preempted"
    """A request came in between; it is tried again when there is time."""
    SUPERSEDED = "superseded"
    """The conversation went on, or said more, before there was time."""
    DROPPED = "dropped"
    REJECTED = "rejected"
    FAILED = "failed"
    COVERED = "covered"
    """What is stored already reaches as far, or nearly."""
    NO_ANCESTOR = "no_ancestor"
    NO_BOUNDARY = "no_boundary"
    DIVERGED = "diverged"
    """The next turn will show the history in other words."""
    NOT_RENDERED = "not_rendered"
    BLANK_REPLY = "blank_reply"
    UNFINISHED = "unfinished"
    OPTED_OUT = "opted_out"
    DISABLED = "disabled"


class StoreCall(StrEnum):
    """Which call on the store a transaction belongs to."""

    INSERT = "insert"
    LOOKUP = "lookup"
    SWEEP = "sweep"
    CLEAR = "clear"
    SHED = "shed"


class Outcome(StrEnum):
    """How a request ended, as its client saw it."""

    COMPLETED = "completed"
    CANCELLED = "cancelled"
    INVALID = "invalid"
    REFUSED = "refused"
    FAILED = "failed"


class FinishReason(StrEnum):
    """Why a generation ended."""

    STOP = "stop"
    LENGTH = "length"
    CANCELLED = "cancelled"
    ERROR = "error"
