"""A model whose tokens are characters, and an engine that says what a test tells it, for the HTTP ports.

The engine speaks through the real `LoopSink`, from another thread, as the real one does.
"""

import asyncio
import contextlib
import queue
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from app.api.ports import (
    ChatPrompt,
    Cleared,
    Health,
    Phase,
    Piece,
    PieceKind,
    PreparedPrompt,
    Progress,
    ReplyPart,
    ReplySchema,
    TextPrompt,
    ToolCall,
    ToolUse,
)
from app.api.stream import LoopSink
from app.errors import RequestError
from app.scheduler.job import Boundary, Delta, Failed, Generated, Job, JobId, Started, TokenLogprob, Walk
from app.snapshots.entry import Bucket, pack
from app.vocabulary import FinishReason, Miss, Origin, Warmup

THINK, ANSWER, CALL, END_OF_TURN = "⟨", "⟩", "⟦", "\x04"
"""Tokens without text: what follows is reasoning, content, a tool call; the turn is over.

A call is a name, and arguments after a space; anything else cannot be read as one.
"""

BEGIN = "\x02"
"""The token that begins a text."""

BULK = "█"
"""A token that stands for a lot of text, to fill buffers with."""

BULK_CHARACTERS = 200_000

UNRENDERABLE = "no template for this"

_KINDS = {THINK: PieceKind.REASONING, ANSWER: PieceKind.CONTENT, CALL: None}

WAIT_SECONDS = 10.0
"""The most a test waits for what must happen."""


class CharacterModel:
    """Every character is a token, and its code point is the id."""

    name = "scripted"
    aliases = frozenset({"owner/scripted-hub-name"})
    created = 1_700_000_000
    vocabulary_size = 0x110000
    call_token = ord(CALL)

    def __init__(self, *, context_length: int = 4096) -> None:
        self.context_length = context_length
        self.prepared: list[tuple[ChatPrompt, str, str]] = []
        """Every conversation rendered, with its session and tenant."""
        self.forgot: list[tuple[str | None, str | None]] = []
        """Each tenant and session whose prompts were to be forgotten."""

    def forget(self, tenant: str | None = None, session: str | None = None) -> None:
        self.forgot.append((tenant, session))

    def prepare(self, prompt: ChatPrompt | TextPrompt, *, session: str, tenant: str) -> PreparedPrompt:
        if isinstance(prompt, ChatPrompt):
            self.prepared.append((prompt, session, tenant))
            tokens = tuple(map(ord, self.render(prompt)))
        else:
            given = prompt.content
            tokens = tuple(map(ord, given)) if isinstance(given, str) else given
        return PreparedPrompt(
            tokens=tokens,
            packed=pack(tokens),
            boundaries=(Boundary(Origin.BOUNDARY, len(tokens) - 1),),
            bucket=Bucket(model=self.name, cache_signature="characters", tenant=tenant),
            verbatim=isinstance(prompt, TextPrompt),
        )

    def render(self, chat: ChatPrompt) -> str:
        text = "".join(f"{message['role']}: {message['content']}\n" for message in chat.messages)
        if UNRENDERABLE in text:
            raise RequestError("the template cannot render these messages", param="messages")
        return text

    def tokenise(self, text: str, *, special: bool) -> list[int]:
        return [ord(BEGIN)] * special + [ord(character) for character in text]

    def text_of(self, tokens: Sequence[int]) -> str:
        return "".join(map(chr, tokens))

    def constraint(
        self,
        chat: ChatPrompt,
        prompt: PreparedPrompt,
        *,
        schema: ReplySchema | None,
        tools: ToolUse | None,
    ) -> "AskedConstraint | None":
        return AskedConstraint(schema, tools) if schema or (tools and tools.must) else None

    def text_stream(
        self,
        prompt: PreparedPrompt,
        *,
        stop: Sequence[str],
        tools: ToolUse | None = None,
        schema: ReplySchema | None = None,
    ) -> "CharacterText":
        return CharacterText(stop, tools=tools, verbatim=prompt.verbatim)

    def next_turn(self, chat: ChatPrompt, prompt: PreparedPrompt) -> tuple[int, ...] | Warmup:
        said = chat.messages[-1]
        calls = "".join(
            f"{CALL}{call['id']} {call['function']['name']} {call['function']['arguments']}"
            for call in said.get("tool_calls", ())
        )
        return (*prompt.tokens, *map(ord, f"assistant: {said['content']}{calls}\nu"))

    def token_text(self, token: int) -> bytes:
        return chr(token).encode()


@dataclass(frozen=True)
class AskedConstraint:
    """What a reply was to be held to, for a test to look at; the scripted engine says what it is told."""

    schema: ReplySchema | None
    tools: ToolUse | None

    def begin(self) -> Walk:
        raise AssertionError("the scripted engine follows no constraint")


class CharacterText:
    """Characters as pieces; the beginning of a stop string waits until it is decided, and so does a call."""

    def __init__(self, stop: Sequence[str], *, tools: ToolUse | None = None, verbatim: bool = False) -> None:
        self._stop = stop
        self._verbatim = verbatim
        self.stop_string: str | None = None
        self._tools = tools
        self._held = ""
        self._kind: PieceKind | None = PieceKind.CONTENT
        self._calls = 0
        self.stopped = False

    def feed(self, token: int) -> list[ReplyPart]:
        character = chr(token)
        if character == END_OF_TURN or self.stopped:
            return []
        if character in _KINDS and not self._verbatim:
            parts = self._release(whole=True)
            self._kind = _KINDS[character]
            return parts
        self._held += character * (BULK_CHARACTERS if character == BULK else 1)
        for stop in self._stop:
            if stop in self._held:
                self.stopped, self.stop_string = True, stop
                self._held = self._held[: self._held.index(stop)]
                return self._release(whole=False)
        if any(stop.startswith(self._held[at:]) for stop in self._stop for at in range(len(self._held))):
            return []
        waits = self._kind is None and self._tools is not None
        return [] if waits else self._release(whole=True)

    def finish(self, *, cut: bool) -> list[ReplyPart]:
        return self._release(whole=not cut)

    @property
    def call_characters(self) -> int:
        return len(self._held) if self._kind is None else 0

    def _release(self, *, whole: bool) -> list[ReplyPart]:
        text, self._held = self._held, ""
        if not text:
            return []
        if self._kind is None and self._tools is not None and whole:
            name, _, arguments = text.partition(" ")
            if name.isidentifier():
                self._calls += 1
                self.stopped = not self._tools.parallel
                return [ToolCall(self._calls - 1, name, arguments or "{}")]
        return [Piece(self._kind or PieceKind.CONTENT, text)]


class ScriptedEngine:
    """Takes jobs and waits for the test to answer them.

    Args:
        sink: where deltas go.
        model: None leaves it loading.
    """

    def __init__(self, sink: LoopSink, model: CharacterModel | None) -> None:
        self.model = model
        self.phase = Phase.READY if model else Phase.LOADING
        self.reason = "" if model else "the model is being loaded"
        self.progress: Progress | None = None
        self.refusal: RequestError | None = None
        """Raised by the next submits, as a full queue would."""
        self.finished: list[JobId] = []
        self.resets: list[str | None] = []
        """The tenants whose snapshots were removed; None: everybody's."""
        self.forgotten: list[tuple[str, str]] = []
        """Tenant and session of every session that was forgotten."""
        self.warmups: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._sink = sink
        self._submitted: asyncio.Queue[Job] = asyncio.Queue()
        self._cancelled: dict[JobId, asyncio.Event] = defaultdict(asyncio.Event)

    def health(self) -> Health:
        return Health(self.phase, self.reason, running=2, waiting=3, progress=self.progress)

    def expecting(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def submit(self, job: Job) -> None:
        if self.refusal is not None:
            raise self.refusal
        self._submitted.put_nowait(job)

    def cancel(self, job_id: JobId) -> None:
        self._cancelled[job_id].set()

    def finish(self, job_id: JobId) -> None:
        self.finished.append(job_id)

    def warm_up(self, job: Job) -> None:
        self.warmups.put_nowait(job)

    async def reset(self, tenant: str | None = None) -> Cleared:
        self.resets.append(tenant)
        return Cleared(entries=3, nbytes=4096)

    async def forget_session(self, tenant: str, session: str) -> Cleared:
        self.forgotten.append((tenant, session))
        return Cleared(entries=1, nbytes=1024)

    @property
    def cancelled(self) -> set[JobId]:
        """The jobs nobody wants any more."""
        return {job for job, event in self._cancelled.items() if event.is_set()}

    async def next_job(self) -> Job:
        """The next job submitted."""
        return await asyncio.wait_for(self._submitted.get(), WAIT_SECONDS)

    @property
    def has_job(self) -> bool:
        """Whether a job was submitted that no test has taken."""
        return not self._submitted.empty()

    async def until_cancelled(self, job: Job) -> None:
        """Return once the job is cancelled."""
        await asyncio.wait_for(self._cancelled[job.id].wait(), WAIT_SECONDS)

    async def tell(self, job: Job, *deltas: Delta) -> None:
        """Deliver deltas in one step, from another thread."""
        await asyncio.to_thread(self._sink, [(job.id, delta) for delta in deltas])

    async def start(self, job: Job, *, cached_tokens: int = 0, miss: Miss | None = Miss.EMPTY) -> None:
        """The job leaves the queue."""
        await self.tell(job, Started(cached_tokens, miss))

    async def say(self, job: Job, text: str, *, finish: FinishReason | None = None) -> None:
        """Generate `text` in one step; with `finish` its last token is the job's last."""
        await self.tell(job, *generated(job, text, finish=finish))

    async def answer(self, text: str, *, cached_tokens: int = 0, miss: Miss | None = Miss.EMPTY) -> Job:
        """Serve the next job whole: start, text, end of turn."""
        job = await self.next_job()
        await self.start(job, cached_tokens=cached_tokens, miss=miss)
        await self.say(job, text + END_OF_TURN, finish=FinishReason.STOP)
        return job

    async def fail(self, job: Job, message: str, status: int) -> None:
        """The job's last word is a failure."""
        await self.tell(job, Failed(message, status))


def generated(job: Job, text: str, *, finish: FinishReason | None = None) -> list[Generated]:
    """`text` as deltas, with log-probabilities where the job asks for them."""
    top = job.sampling.top_logprobs
    return [
        Generated(
            ord(character),
            None
            if top is None
            else TokenLogprob(-0.5, tuple((ord("a") + rank, -1.0 - rank) for rank in range(top))),
            finish if index == len(text) - 1 else None,
        )
        for index, character in enumerate(text)
    ]
