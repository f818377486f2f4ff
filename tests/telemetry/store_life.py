"""A random life of a store, in which nearly everything happens that can."""

import random

from app.snapshots.limits import Limits
from app.vocabulary import Miss, Origin, Rejection
from tests.support.snapshots import limits
from tests.telemetry.spans_room import SpansRoom


def busy_limits() -> Limits:
    """Limits that bind again and again in a random life."""
    return limits(capacity_bytes=300, max_entries=70, ttl_seconds=400, max_arrays=55)


def random_life(room: SpansRoom, draw: random.Random, calls: int) -> None:
    """Use the store in every way there is, from requests and without."""
    sessions = "abcdefghijkl"
    conversations = [[draw.randrange(9) for _ in range(40)] for _ in range(5)]
    for _ in range(calls):
        tokens = draw.choice(conversations)[: draw.randrange(1, 40)]
        cause = draw.choice([None, room.request()])
        room.clock.advance(draw.choice([0, 0, 1, 15]))
        match draw.randrange(300):
            case 0:
                room.store.clear()
            case 1:
                room.store.shed(draw.randrange(200), cause=cause)
            case 2:
                room.store.sweep()
            case 3:
                room.store.skip(Miss.OPTED_OUT, prompt_tokens=9, cause=cause)
            case 4:
                room.store.refuse(
                    Rejection.UNSUPPORTED,
                    origin=Origin.BOUNDARY,
                    session="a",
                    tokens=9,
                    nbytes=0,
                    cause=cause,
                )
            case n if n < 90:
                room.look_up(*tokens, session=draw.choice(sessions), cause=cause)
            case _:
                room.put(
                    *tokens,
                    session=draw.choice([*sessions, None]),
                    origin=draw.choice(list(Origin)),
                    nbytes=draw.choice([1, 5, 9, 700]),
                    cause=cause,
                )
