"""What the HTTP side needs of a model and of the engine behind it. Knows no MLX and no HTTP."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from app.chat import (
    ChatPrompt,
    Piece,
    PieceKind,
    PreparedPrompt,
    ReplyPart,
    ReplySchema,
    TextPrompt,
    ToolCall,
    ToolUse,
)
from app.scheduler.job import Constraint, Job, JobId
from app.vocabulary import Warmup

__all__ = [
    "ChatModel",
    "ChatPrompt",
    "Cleared",
    "Engine",
    "Health",
    "Phase",
    "Piece",
    "PieceKind",
    "PreparedPrompt",
    "Progress",
    "ReplyPart",
    "ReplySchema",
    "TextPrompt",
    "TextStream",
    "ToolCall",
    "ToolUse",
]


class Phase(StrEnum):
    """What the engine is doing, as probes tell it."""

    LOADING = "loading"
    READY = "ready"
    DRAINING = "draining"
    CRASH_LOOP = "crash_loop"
    """Too many starts before this one did not end well; the model is not loaded for now."""
    FAILING = "failing"
    """Too many steps failed of late; it is ready again once that is some time ago."""
    STALLED = "stalled"
    """Work is pending and no step has ended for too long; only a restart helps."""
    FAILED = "failed"
    """The engine thread has ended by itself; only a restart helps."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the load is: what is being done, and how much of that; None where nobody can say."""

    what: str
    percent: int | None


@dataclass(frozen=True, slots=True)
class Health:
    """The engine at one instant. `reason` is a sentence for a person; empty while ready."""

    phase: Phase
    reason: str
    running: int
    waiting: int
    progress: Progress | None = None
    """Of the load, while there is one."""


@dataclass(frozen=True, slots=True)
class Cleared:
    """What a reset of the snapshot store gave back."""

    entries: int
    nbytes: int


class TextStream(Protocol):
    """Turns one answer's tokens into text and tool calls. Pure Python, used on the event loop by one request.

    It holds back text that may turn out to be half a character, a stop string, a marker or a call.
    """

    @property
    def stopped(self) -> bool:
        """Whether a stop string or the one call allowed has ended it. What follows is never returned."""
        ...

    @property
    def stop_string(self) -> str | None:
        """The stop string that has ended it, if one has."""
        ...

    @property
    def call_characters(self) -> int:
        """How long the tool call is that has begun and not ended; the token that ends it has it read."""
        ...

    def feed(self, token: int) -> Sequence[ReplyPart]:
        """What is certain after one more token; a token that ends the turn has no text."""
        ...

    def finish(self, *, cut: bool) -> Sequence[ReplyPart]:
        """What was held back, once no token follows; nothing if it has stopped.

        `cut`: the last token did not end the model's turn, so that a call may have been cut off.
        """
        ...


class ChatModel(Protocol):
    """The model being served: its name, its template, its tokens. Safe to use off the engine thread."""

    @property
    def name(self) -> str:
        """What clients ask for, and what answers carry."""
        ...

    @property
    def aliases(self) -> frozenset[str]:
        """Other names it answers to."""
        ...

    @property
    def created(self) -> int:
        """Unix seconds, for `/v1/models`."""
        ...

    @property
    def context_length(self) -> int:
        """Most tokens of prompt and answer together."""
        ...

    @property
    def vocabulary_size(self) -> int:
        """Token ids run from 0 to one below this."""
        ...

    def prepare(self, prompt: ChatPrompt | TextPrompt, *, session: str, tenant: str) -> PreparedPrompt:
        """Render the template and tokenise. Blocks; called on one thread at a time, not the event loop's.

        Raises:
            RequestError: the template refuses these messages.
        """
        ...

    def forget(self, tenant: str | None = None, session: str | None = None) -> None:
        """Keep nothing of any prompt's text, of one tenant's, or of one session.

        Called on the thread that `prepare` is called on.
        """
        ...

    def render(self, chat: ChatPrompt) -> str:
        """The prompt's text, with what makes the model begin a reply. Blocks, as `prepare` does.

        Raises:
            RequestError: the template refuses these messages.
        """
        ...

    def tokenise(self, text: str, *, special: bool) -> list[int]:
        """Tokens of a text; `special`: with those that begin a text, where it does not have them. Blocks."""
        ...

    def text_of(self, tokens: Sequence[int]) -> str:
        """The text that tokens stand for, marks included. Blocks."""
        ...

    @property
    def call_token(self) -> int | None:
        """The token that a tool call begins with, where it is one token."""
        ...

    def constraint(
        self,
        chat: ChatPrompt,
        prompt: PreparedPrompt,
        *,
        schema: ReplySchema | None,
        tools: ToolUse | None,
    ) -> Constraint | None:
        """What the reply to `prompt`, made of `chat`, is held to; None where it is free.

        Blocks, as `prepare` does.

        Raises:
            RequestError: this model's replies cannot be held to it, or its schema cannot be followed.
        """
        ...

    def text_stream(
        self,
        prompt: PreparedPrompt,
        *,
        stop: Sequence[str],
        tools: ToolUse | None = None,
        schema: ReplySchema | None = None,
    ) -> TextStream:
        """The text side of one answer.

        `stop`: strings that end it, none of them empty. Without `tools` nothing in it is taken for a call.
        With `schema` it is JSON that was held to it.
        """
        ...

    def next_turn(self, chat: ChatPrompt, prompt: PreparedPrompt) -> tuple[int, ...] | Warmup:
        """What every next prompt of the conversation begins with, and one token more; or why it is no use.

        Blocks, as `prepare` does. `chat` ends with the reply to `prompt`, as its client will send it back.
        """
        ...

    def token_text(self, token: int) -> bytes:
        """The bytes a token stands for, for log-probability entries; may be part of a character."""
        ...


class Engine(Protocol):
    """The scheduler as the HTTP side sees it. Every method is called on the event loop and never blocks."""

    @property
    def model(self) -> ChatModel | None:
        """None until the model is loaded."""
        ...

    def health(self) -> Health:
        """Phase and load, as of now."""
        ...

    def expecting(self) -> AbstractContextManager[None]:
        """Announce a job that is being prepared; by the end of the block it is submitted, or never will be.

        Jobs that are announced while the engine starts others may start together with them, and no warm-up
        goes on meanwhile.
        """
        ...

    def submit(self, job: Job) -> None:
        """Queue a job; its deltas come through the DeltaSink the engine was built with.

        Raises:
            RequestError: 429 the queue is full; 503 draining, stalled or failed. Both with Retry-After.
        """
        ...

    def cancel(self, job_id: JobId) -> None:
        """Nobody wants the answer: free its place within one step. Unknown and ended jobs are ignored."""
        ...

    def finish(self, job_id: JobId) -> None:
        """The text is complete (a stop string): end the job now, as a success whose state may be kept."""
        ...

    def warm_up(self, job: Job) -> None:
        """Compute the state at the job's last boundary when there is time; nothing is generated or delivered.

        May be called from any thread. A newer one of the same session takes its place.
        """
        ...

    async def reset(self, tenant: str | None = None) -> Cleared:
        """Empty the snapshot store, or what one tenant has in it.

        Raises:
            RequestError: 503 where the engine cannot do it.
        """
        ...

    async def forget_session(self, tenant: str, session: str) -> Cleared:
        """Remove what the snapshot store holds of one session.

        Raises:
            RequestError: 503 where the engine cannot do it.
        """
        ...
