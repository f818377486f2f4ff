"""Texts to ask with: of so many words, and begun as no other is. Knows no server."""

from collections.abc import Sequence
from random import Random

WORDS = ("river", "copper", "steam", "garden", "window", "lantern", "barley", "harbour", "thimble", "orchard")

Message = dict[str, object]
"""A message of a chat, as the protocol has it."""


def words_of(tag: str, count: int) -> str:
    """So many words, about as many tokens; the same for the same tag."""
    return " ".join(Random(tag).choices(WORDS, k=count))  # noqa: S311 - nobody has to be kept from guessing


def question(tag: str, words: int) -> list[Message]:
    """A chat's first messages. Where tags differ, so do prompts from their first words on: no cache helps."""
    return [
        {"role": "system", "content": f"Case {tag}. You tell long stories."},
        {"role": "user", "content": f"{tag}: tell a long story of {words_of(tag, words)}."},
    ]


def follow_ups(tag: str, turns: int, words: int) -> Sequence[Message]:
    """What a user says in the later turns of a chat."""
    return [
        {"role": "user", "content": f"Turn {turn}. Go on with {words_of(f'{tag} {turn}', words)}."}
        for turn in range(2, turns + 1)
    ]
