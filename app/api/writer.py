"""What each API brings to have its replies written: the shapes, and nothing of jobs, sockets or threads."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from app.api.ports import PreparedPrompt, ReplyPart
from app.api.reply import Reply
from app.errors import RequestError


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of an answer before it begins.

    `id`: fresh, without any API's prefix. `created`: Unix seconds. `model`: the served name. `token_text`:
    the bytes of a token.
    """

    id: str
    created: int
    model: str
    prompt: PreparedPrompt
    token_text: Callable[[int], bytes]

    @property
    def prompt_tokens(self) -> int:
        """How many tokens the prompt has."""
        return len(self.prompt.tokens)


class Writer(Protocol):
    """Writes the replies to one request, whole, or bit by bit as events. Made for one answer."""

    @property
    def id(self) -> str:
        """The answer's id, as its client sees it."""
        ...

    @property
    def keep_alive(self) -> bytes:
        """What is sent where there is nothing to say for a while."""
        ...

    def whole(self, replies: Sequence[Reply]) -> Any:
        """The body of a whole answer, ready to be encoded as JSON."""
        ...

    def opening(self, replies: Sequence[Reply]) -> bytes:
        """The first events, before any part."""
        ...

    def parts(self, index: int, parts: Sequence[ReplyPart], reply: Reply) -> bytes:
        """The events of what is new in the `index`-th reply."""
        ...

    def ended(self, index: int, reply: Reply) -> bytes:
        """The events that say how the `index`-th reply has ended, after all its parts."""
        ...

    def closing(self, replies: Sequence[Reply]) -> bytes:
        """The last events, after all replies have ended."""
        ...

    def failed(self, error: RequestError, replies: Sequence[Reply]) -> bytes:
        """The last events of an answer that broke off."""
        ...


@dataclass(frozen=True, slots=True)
class Api:
    """One API: what the operation is called in traces, which field holds the prompt, and its writer.

    `operation` is `chat` or `text_completion`, by OpenTelemetry's GenAI conventions.
    """

    operation: str
    prompt_field: str
    writer: Callable[[Facts], Writer]
