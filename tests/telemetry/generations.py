"""The end of a generation, with everything that does not matter filled in."""

from typing import Any

from app.events import GenerationEnded
from app.vocabulary import FinishReason

BEGAN = 1000.0
"""When its clock began; everything below is told from there."""


def generation(**changes: Any) -> GenerationEnded:
    """A request that came after 1 s, waited 1 s, prefilled for 2 s and generated for 4 s."""
    facts: dict[str, Any] = {
        "job_id": "job",
        "reason": FinishReason.LENGTH,
        "cause": None,
        "queued": BEGAN + 1,
        "started": BEGAN + 2,
        "first_token": BEGAN + 4,
        "ended": BEGAN + 8,
        "prompt_tokens": 100,
        "cached_tokens": 60,
        "generated_tokens": 9,
        "miss": None,
        "error": None,
    }
    return GenerationEnded(**(facts | changes))
