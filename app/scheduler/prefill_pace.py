"""How long a prompt's chunk may be while replies are written beside it. Arithmetic; knows no model."""

LEAST_TOKENS = 64
"""Shorter chunks cost a pass over the weights each and hardly shorten a step."""

MOST_GROWTH = 2.0
"""From one chunk to the next: a step that was quick by chance must not be followed by a very long one."""


class PrefillPace:
    """Learns from each step how many prompt tokens the next one has time for.

    Steps get slower as the context grows, as rows join and as the machine warms up, so that nothing is
    remembered but the last step.

    Args:
        target_seconds: how long a step may take in which replies get their next token.
        most_tokens: the chunk where nobody waits.
    """

    def __init__(self, target_seconds: float, *, most_tokens: int) -> None:
        self._target_seconds = target_seconds
        self._most_tokens = most_tokens
        self._tokens = float(min(most_tokens, LEAST_TOKENS))

    @property
    def tokens(self) -> int:
        """Tokens of all prompts together that the next step has time for."""
        return int(self._tokens)

    def observe(self, tokens: int, seconds: float) -> None:
        """A step computed so many prompt tokens and a token of each reply."""
        ratio = self._target_seconds / seconds if seconds > 0 else MOST_GROWTH
        # What was computed is what the time was for; less than was allowed says nothing against more.
        fitting = tokens * min(ratio, MOST_GROWTH)
        if ratio < 1 or tokens >= self.tokens:
            self._tokens = min(max(fitting, LEAST_TOKENS), self._most_tokens)
