"""The arithmetic of conversations that share a budget."""

from app.bench.talk import Turn
from benchmarks.interleaved import Talks, order_of, reuse_of

TALKS: Talks = [
    [{"role": "user", "content": f"{talk} {turn}"} for turn in range(talk + 2)] for talk in range(3)
]


def test_each_conversation_speaks_as_often_as_it_has_turns_and_not_in_a_row():
    """In an order that is mixed, and the same for every server."""
    order = order_of(TALKS)

    assert [order.count(talk) for talk in range(3)] == [2, 3, 4]
    assert order == order_of(TALKS)
    assert order != sorted(order)


def test_reuse_is_summed_over_turns_and_a_hit_is_a_later_turn_that_found_anything():
    """A first turn can be no hit of its own conversation; a server that tells nothing has cached nothing."""
    reuse = reuse_of(
        [
            [Turn(100, 40, 0.1), Turn(200, 150, 0.1), Turn(300, 0, 0.1)],
            [Turn(100, None, 0.1), Turn(200, 1, 0.1)],
        ]
    )

    assert (reuse.prompt_tokens, reuse.computed_tokens) == (900, 900 - 191)
    assert (reuse.later_turns, reuse.hits) == (3, 2)
