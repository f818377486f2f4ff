"""What the page shows and others count: answered requests, the store. Data only."""

from msgspec import Struct

from app.vocabulary import Miss, Outcome


class RecentRequest(Struct, frozen=True, kw_only=True):
    """One answered request of an inference route; nothing of what was said in it.

    `hit`: whether it started from a stored state, null where it never started. `miss`: why it did not.
    `session_hash` is that of spans and log lines, null where no session was named.
    """

    ended_unix_seconds: float
    request_id: str | None
    route: str
    status: int
    outcome: Outcome
    hit: bool | None
    miss: Miss | None
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    time_to_first_token_seconds: float | None
    seconds: float
    session_hash: str | None


class SnapshotFill(Struct, frozen=True, kw_only=True):
    """What the snapshot store holds of what it may. `recommended_bytes`: the capacity that would be right."""

    enabled: bool
    entries: int
    bytes: int
    capacity_bytes: int
    recommended_bytes: int | None
