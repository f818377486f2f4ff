"""A reply drawn at random from what a constraint allows, without a model: each token has its chance."""

import random
from collections.abc import Sequence

from app.engine.constraint import ReplyConstraint
from app.scheduler.job import Generated
from app.vocabulary import FinishReason
from tests.support.held import Holding

_CLOSING = b'"}])>'
_URGE = 0.12
"""How often a walk sets out to write one of the texts that it is given: letter by letter it never would."""


def random_reply(
    holding: Holding,
    held: ReplyConstraint,
    *,
    end: int,
    seed: int,
    urges: Sequence[str] = (),
    most_tokens: int = 3000,
) -> list[Generated]:
    """Tokens up to the turn's end.

    Args:
        holding: whose vocabulary it is.
        held: the constraint.
        end: the token that ends a turn.
        seed: of the draw.
        urges: texts that are tried now and then, such as what ends a value.
        most_tokens: longer than any reply that is meant to be drawn.
    """
    chance = random.Random(seed)
    weights = [_weight(held.vocabulary.decode_bytes([token])) for token in range(held.vocabulary.vocab_size)]
    walk = held.begin()
    said: list[Generated] = []
    urge: list[int] = []
    for _ in range(most_tokens):
        mask = walk.allowed()
        assert walk.failure == ""
        allowed = [token for token in range(len(weights)) if mask[token // 8] >> token % 8 & 1]
        if not urge and urges and chance.random() < _URGE:
            urge = holding.model.tokenise(chance.choice(urges), special=False)
        if allowed == [end] or (end in allowed and chance.random() < 0.5):
            return [*said, Generated(end, None, FinishReason.STOP)]
        if urge and urge[0] in allowed:
            token = urge.pop(0)
        else:
            urge = []
            others = [token for token in allowed if token != end]
            token = chance.choices(others, [weights[each] for each in others])[0]
        walk.take(token)
        said.append(Generated(token, None, None))
    text = holding.model.text_of([each.token for each in said[-300:]])
    raise AssertionError(f"a reply without an end: … {text}")


def _weight(text: bytes) -> float:
    if len(text) != 1 or text in _CLOSING:
        return 8.0
    # Weak as the tastes of models are for it, white space without end would be.
    return 0.1 if text.isspace() else 1.0
