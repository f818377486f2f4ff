"""What may be told about a snapshot event outside this process: numbers, reasons and the hash of its session.

Spans and log lines both come from here, so they say the same under the same names.
"""

from collections.abc import Callable
from typing import assert_never

from app.events import (
    EntryFacts,
    LookupHit,
    LookupMissed,
    SnapshotEvent,
    SnapshotInserted,
    SnapshotRejected,
    SnapshotRemoved,
)
from app.snapshots.stats import HIT

SESSION_HASH = "session.hash"

Facts = dict[str, str | int | float | bool]
HashSession = Callable[[str], str]


def facts_of(event: SnapshotEvent, hash_session: HashSession) -> Facts:
    """The event as plain values, sizes in bytes and times in seconds."""
    match event:
        case SnapshotInserted(entry=entry):
            return {"outcome": "inserted", **_entry(entry, hash_session)}
        case SnapshotRemoved(entry=entry):
            return {
                "reason": event.reason.value,
                "age_seconds": event.age_seconds,
                "idle_seconds": event.idle_seconds,
                "hits": event.hits,
                "self_eviction": event.self_eviction,
                **_entry(entry, hash_session),
            }
        case SnapshotRejected():
            return {
                "outcome": "rejected",
                "reason": event.reason.value,
                "origin": event.origin.value,
                "tokens": event.tokens,
                "bytes": event.nbytes,
                "capacity_bytes": event.capacity_bytes,
                **_session(event.session, hash_session),
            }
        case LookupHit(entry=entry):
            return {
                "outcome": HIT,
                "prompt_tokens": event.prompt_tokens,
                "reused_tokens": event.reused_tokens,
                "reuse_gap_seconds": event.reuse_gap_seconds,
                "failed_restores": event.failed_restores,
                **_entry(entry, hash_session),
            }
        case LookupMissed():
            return {
                "outcome": event.reason.value,
                "prompt_tokens": event.prompt_tokens,
                "common_prefix_tokens": event.common_prefix_tokens,
                "failed_restores": event.failed_restores,
            }
        case _:
            assert_never(event)


def _entry(entry: EntryFacts, hash_session: HashSession) -> Facts:
    return {
        "origin": entry.origin.value,
        "tokens": entry.tokens,
        "bytes": entry.nbytes,
        "arrays": entry.arrays,
        **_session(entry.session, hash_session),
    }


def _session(session: str | None, hash_session: HashSession) -> Facts:
    return {} if session is None else {SESSION_HASH: hash_session(session)}
