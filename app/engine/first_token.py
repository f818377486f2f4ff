"""The token that mlx-lm has computed and not handed out yet.

It hands one out when the step after it has been built and launched, so that the device never waits for
Python. A client who waits for the first token waits for that as well.
"""

from typing import Any

from mlx_lm.generate import BatchGenerator


def computed_token(generator: BatchGenerator, uid: int) -> tuple[int, Any] | None:
    """The next token of this row and its log-probabilities [vocabulary], or None where others are there too.

    Waits for the step under way. Others would find the device with nothing to do afterwards.
    """
    batch = generator._generation_batch  # noqa: SLF001 - there is no other way to know it
    if batch.uids != [uid]:
        return None
    (token,) = batch._next_tokens.tolist()  # noqa: SLF001
    return token, batch._next_logprobs[0]  # noqa: SLF001
