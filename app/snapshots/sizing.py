"""How much memory conversations need, and what a store should have. Pure arithmetic: no store, clock or MLX.

The method and a worked example are in docs/sizing.md.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

HEADROOM = Fraction(1, 4)
"""On top of what was needed, and one snapshot at least: conversations grow, and another one may come."""

LEAST_ENTRIES = 2
"""A store that holds one snapshot serves one conversation, and not beside another."""

START_SESSIONS = 8
START_TOKENS = 8192
"""What is assumed while nothing has been measured: so many conversations, so long or as the context is."""


@dataclass(frozen=True, slots=True)
class Part:
    """One share of a model's state. `most_tokens`: where a window ends its growth; None: it has none."""

    fixed_bytes: float
    bytes_per_token: float
    most_tokens: int | None = None

    def nbytes(self, tokens: int) -> float:
        """Its bytes after so many tokens."""
        counted = tokens if self.most_tokens is None else min(tokens, self.most_tokens)
        return self.fixed_bytes + self.bytes_per_token * counted


@dataclass(frozen=True, slots=True)
class StateSize:
    """What a model's state weighs, by its length."""

    parts: tuple[Part, ...]

    def nbytes(self, tokens: int) -> int:
        """The bytes of a snapshot of `tokens` tokens."""
        return math.ceil(sum(part.nbytes(tokens) for part in self.parts))

    @property
    def fixed_bytes(self) -> int:
        """What does not depend on the length, however long: windows count as full."""
        return math.ceil(
            sum(
                part.fixed_bytes if part.most_tokens is None else part.nbytes(part.most_tokens)
                for part in self.parts
            )
        )

    @property
    def bytes_per_token(self) -> float:
        """What each further token adds once all windows are full."""
        return sum(part.bytes_per_token for part in self.parts if part.most_tokens is None)


class Basis(StrEnum):
    """Where a recommendation comes from."""

    MODEL = "model"
    MEASURED = "measured"


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A capacity, and what it is made of.

    `wanted_bytes`: what would be right, headroom included; `available_bytes`: what memory has for the store;
    `sessions`: how many conversations it is for, and `bytes_per_session` what each takes on average.
    """

    basis: Basis
    sessions: int
    bytes_per_session: int
    wanted_bytes: int
    available_bytes: int

    @property
    def capacity_bytes(self) -> int:
        """What to set: as much as would be right, but never more than there is."""
        return min(self.wanted_bytes, self.available_bytes)

    @property
    def fits(self) -> bool:
        """Whether memory has room for what would be right."""
        return self.wanted_bytes <= self.available_bytes


def snapshots_between_turns(*, warmup: bool, truncatable: bool) -> int:
    """How many snapshots a conversation holds: its last, and where the next turn is prepared, that one.

    A state that can be cut back serves as both.
    """
    return 2 if warmup and not truncatable else 1


def with_headroom(nbytes: int, snapshot_bytes: int) -> int:
    """`nbytes` and the headroom on top, where the largest snapshot has `snapshot_bytes`."""
    return nbytes + max(math.ceil(nbytes * HEADROOM), snapshot_bytes)


def for_conversations(
    size: StateSize, *, sessions: int, tokens: int, snapshots_each: int = 1, available_bytes: int
) -> Recommendation:
    """What so many conversations of so many tokens need; never less than two snapshots.

    `snapshots_each`: how many a conversation holds, see `snapshots_between_turns`.
    """
    snapshot_bytes = size.nbytes(tokens)
    each = snapshot_bytes * snapshots_each
    needed = max(each * sessions, LEAST_ENTRIES * snapshot_bytes)
    return Recommendation(Basis.MODEL, sessions, each, with_headroom(needed, snapshot_bytes), available_bytes)


def from_model(
    size: StateSize, *, context_length: int, snapshots_each: int = 1, available_bytes: int
) -> Recommendation:
    """What to begin with: nothing has been measured yet. The arguments are those of `for_conversations`."""
    return for_conversations(
        size,
        sessions=START_SESSIONS,
        tokens=min(START_TOKENS, context_length),
        snapshots_each=snapshots_each,
        available_bytes=available_bytes,
    )


def from_demand(*, nbytes: int, sessions: int, largest_bytes: int, available_bytes: int) -> Recommendation:
    """What was needed at the busiest time.

    Args:
        nbytes: all that would have been held then, had there been room.
        sessions: the conversations that this was for.
        largest_bytes: the largest snapshot there was; at least two of these have to fit.
        available_bytes: what memory has for the store.
    """
    needed = max(nbytes, LEAST_ENTRIES * largest_bytes)
    return Recommendation(
        Basis.MEASURED,
        sessions,
        nbytes // max(sessions, 1),
        with_headroom(needed, largest_bytes),
        available_bytes,
    )
