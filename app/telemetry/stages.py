"""The stages of a generation, as spans and log lines tell them: queue, prefill, decode."""

from dataclasses import dataclass

from app.events import GenerationEnded


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage that began, and when it ended: with the next stage, or with the generation."""

    name: str
    began: float
    ended: float

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.ended - self.began


def stages_of(event: GenerationEnded) -> tuple[Stage, ...]:
    """The stages that began, in order; at least `queue`."""
    begins = (("queue", event.queued), ("prefill", event.started), ("decode", event.first_token))
    begun = [(name, began) for name, began in begins if began is not None]
    ends = [*(began for _, began in begun[1:]), event.ended]
    return tuple(Stage(name, began, ended) for (name, began), ended in zip(begun, ends, strict=True))
