"""Which prompts begin to be computed, of those that wait for it. Arithmetic; knows no model."""

from collections.abc import Sequence


def beginning(
    begun: Sequence[int], waiting: Sequence[int], *, chunk: int, most: int, most_long: int
) -> list[int]:
    """The places in `waiting`, in order, of the prompts that begin with the next step.

    Prompts longer than a chunk would all be done when the last of them is; one after the other, each is done
    as early as it can be. A short one waits for no long one. Both kinds begin in the order that they came.

    Args:
        begun: tokens left of each prompt that is under way.
        waiting: tokens left of each that waits, in the order that they came.
        chunk: most tokens of one prompt in one step.
        most: most prompts under way at a time.
        most_long: most of them that are longer than a chunk.
    """
    places = most - len(begun)
    places_for_long = most_long - sum(left > chunk for left in begun)
    chosen: list[int] = []
    for place, left in enumerate(waiting):
        if len(chosen) >= places:
            break
        if left > chunk:
            if places_for_long < 1:
                continue
            places_for_long -= 1
        chosen.append(place)
    return chosen
