"""The values the store is made of: where a snapshot may be reused, and what it weighs."""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Generic, NewType, Protocol, TypeVar

from app.events import EntryFacts, TraceRef

TokenBytes = NewType("TokenBytes", bytes)
"""A token vector as little-endian-or-native uint32, 4 bytes a token: prefixes compare by memcmp."""

BYTES_PER_TOKEN = 4

ANONYMOUS_SESSION = "(anonymous)"
"""The session of every request that names none; parentheses keep it apart from ordinary client keys."""


def pack(tokens: Iterable[int]) -> TokenBytes:
    """The token vector of `tokens`; raises OverflowError for an id outside 0…2³²-1."""
    return TokenBytes(array("I", tokens).tobytes())


def unpack(tokens: TokenBytes) -> tuple[int, ...]:
    """The token ids of a vector."""
    return tuple(array("I", tokens))


def token_count(tokens: TokenBytes) -> int:
    """How many tokens the vector holds."""
    return len(tokens) // BYTES_PER_TOKEN


def common_tokens(one: TokenBytes, other: TokenBytes) -> int:
    """How many leading tokens two vectors share; halving, because comparing slices is a memcmp."""
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return high // BYTES_PER_TOKEN
    while high - low > 1:
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low // BYTES_PER_TOKEN


class Payload(Protocol):
    """Sealed model state, opaque to the store. Its size never changes after sealing."""

    @property
    def nbytes(self) -> int:
        """True bytes held, not what a padded buffer claims."""
        ...

    @property
    def arrays(self) -> int:
        """How many device arrays it holds: Metal limits their number, not only their bytes."""
        ...

    def can_truncate_to(self, n_tokens: int) -> bool:
        """Whether the state of the first `n_tokens` tokens can be had from this one."""
        ...


@dataclass(frozen=True, slots=True)
class Bucket:
    """What must be equal, field by field, before one request may use another's state."""

    model: str
    cache_signature: str
    adapter: str = ""
    template_signature: str = ""
    media_digest: str = ""
    tenant: str = ""


class Standing(IntEnum):
    """Who goes first when room is needed: all entries of one standing before any of the next.

    `KEPT`: superseded, and kept for a conversation that goes back to before its last message.
    `LIVE`: the state of a conversation, or of a system prompt that nobody has started from yet.
    `ANCHOR`: the state of a system prompt that a request has started from.
    """

    KEPT = 0
    LIVE = 1
    ANCHOR = 2


P = TypeVar("P", bound=Payload)


@dataclass(slots=True, eq=False)
class Entry(Generic[P]):
    """One snapshot in the store. Its token vector is its path in the prefix tree, and kept nowhere else.

    `used` numbers the uses of all entries in order, so that equal clock readings leave no tie. `cuts`:
    whether its state can be cut back to all that may be asked of it.
    """

    facts: EntryFacts
    bucket: Bucket
    payload: P
    created: float
    inserted_by: TraceRef | None
    last_used: float
    used: int = 0
    hits: int = 0
    tentative: bool = False
    standing: Standing = Standing.LIVE
    cuts: bool = False
