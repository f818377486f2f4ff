"""Entries of the oracle with their tokens spelled out, in one list, always counted anew."""

from dataclasses import dataclass, field

from app.events import EntryFacts, Occupancy, TraceRef
from app.snapshots.entry import Bucket, Payload
from app.vocabulary import Origin

Tokens = tuple[int, ...]


def shared_tokens(one: Tokens, other: Tokens) -> int:
    """The length of the longest common prefix, counted token by token."""
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count


@dataclass(eq=False)
class Row:
    """An entry, with its tokens spelled out."""

    id: int
    bucket: Bucket
    session: str | None
    origin: Origin
    tokens: Tokens
    payload: Payload
    created: float
    last_used: float
    inserted_by: TraceRef | None
    hits: int = 0
    kept: bool = False
    tentative: bool = False
    guessed_from: int | None = None
    proven: bool = False

    def facts(self) -> EntryFacts:
        return EntryFacts(
            self.id,
            self.origin,
            self.session,
            len(self.tokens),
            self.payload.nbytes,
            self.payload.arrays,
            self.bucket.tenant,
        )

    def standing(self) -> str:
        return "KEPT" if self.kept else "ANCHOR" if self.proven else "LIVE"

    def begins(self, tokens: Tokens) -> bool:
        """Whether it is a strict prefix of `tokens`."""
        return len(self.tokens) < len(tokens) and shared_tokens(self.tokens, tokens) == len(self.tokens)


@dataclass
class Rows:
    """What is held: `rows`, the least recently used first.

    A row that is `kept` was superseded and stays as an ancestor; a system row is `proven` by its first hit.
    """

    rows: list[Row] = field(default_factory=list, init=False)

    def leaving(self) -> list[Row]:
        """The first to go first: kept ancestors, the proven last."""
        return (
            [row for row in self.rows if row.kept]
            + [row for row in self.rows if not row.kept and not row.proven]
            + [row for row in self.rows if row.proven]
        )

    def of_tenant(self, tenant: str) -> list[Row]:
        return [row for row in self.leaving() if row.bucket.tenant == tenant]

    def of(self, bucket: Bucket, session: str | None) -> list[Row]:
        return [row for row in self.rows if row.bucket == bucket and row.session == session]

    def nbytes(self) -> int:
        return sum(row.payload.nbytes for row in self.rows)

    def arrays(self) -> int:
        return sum(row.payload.arrays for row in self.rows)

    def occupancy(self) -> Occupancy:
        by_origin = {}
        for origin in Origin:
            mine = [row for row in self.rows if row.origin is origin]
            by_origin[origin] = (len(mine), sum(row.payload.nbytes for row in mine))
        oldest_used = min((row.last_used for row in self.rows), default=None)
        return Occupancy(len(self.rows), self.nbytes(), self.arrays(), by_origin, oldest_used)
