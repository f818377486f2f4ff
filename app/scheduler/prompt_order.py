"""Which prompts begin to be computed, of those that wait for it. Arithmetic; knows no model."""

from collections.abc import Sequence


def beginning(begun: Sequence[int], waiting: Sequence[int], *, chunk: int, most: int) -> list[int]:
    """The places in `waiting`, in order, of the prompts that begin with the next step.

    Of prompts longer than a chunk only one is under way: together they would all be done when the last is,
    one after the other each is done as early as it can be. Those that fit into a chunk together go beside
    it, so that a short question waits for no long one. Both kinds begin in the order that they came.

    Args:
        begun: tokens left of each prompt that is under way.
        waiting: tokens left of each that waits, in the order that they came.
        chunk: most tokens of one prompt in one step.
        most: most prompts under way at a time.
    """
    has_long = any(left > chunk for left in begun)
    room = chunk - sum(left for left in begun if left <= chunk)
    chosen: list[int] = []
    for place, left in enumerate(waiting):
        if len(begun) + len(chosen) >= most:
            break
        if left > chunk:
            if has_long:
                continue
            has_long = True
        elif left > room:
            # Nor does a shorter one after it.
            room = 0
            continue
        else:
            room -= left
        chosen.append(place)
    return chosen
