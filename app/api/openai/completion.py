"""A chat completion as OpenAI's clients read it, whole or in chunks. Pure; knows neither sockets nor jobs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from app.api.ports import Piece, PieceKind, ReplyPart, ToolCall
from app.api.replies import first_start
from app.api.reply import Reply
from app.scheduler.job import TokenLogprob


class TopLogprob(Struct, frozen=True):
    """A token that could have been chosen. `bytes` are UTF-8; one token may be part of a character."""

    token: str
    logprob: float
    bytes: list[int]


class TokenLogprobs(Struct, frozen=True):
    """The token that was chosen, and the likeliest ones."""

    token: str
    logprob: float
    bytes: list[int]
    top_logprobs: list[TopLogprob]


class Logprobs(Struct, frozen=True):
    """One entry for each token, reasoning included."""

    content: list[TokenLogprobs]


class Function(Struct, frozen=True):
    """What is called; `arguments` are a JSON object as text."""

    name: str
    arguments: str


class MessageToolCall(Struct, frozen=True, kw_only=True):
    """A call that the client is to make. Its result comes back under `id`."""

    id: str
    type: Literal["function"] = "function"
    function: Function


class ReplyMessage(Struct, frozen=True, kw_only=True):
    """What the model said. `reasoning_content` is there where the model thought first.

    `content` is null where it called tools and said nothing.
    """

    role: Literal["assistant"] = "assistant"
    content: str | None
    reasoning_content: str | UnsetType = UNSET
    tool_calls: list[MessageToolCall] | UnsetType = UNSET


class Choice(Struct, frozen=True, kw_only=True):
    """One reply."""

    index: int = 0
    message: ReplyMessage
    logprobs: Logprobs | None
    finish_reason: str


class PromptTokensDetails(Struct, frozen=True):
    """`cached_tokens` of the prompt were not computed again."""

    cached_tokens: int


class Usage(Struct, frozen=True):
    """Tokens; those of the prompt include the cached ones."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails


class ChatCompletion(Struct, frozen=True, kw_only=True):
    """A whole reply."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[Choice]
    usage: Usage


class DeltaToolCall(Struct, frozen=True, kw_only=True):
    """A call of a stream, whole: it is known once it has been read to its end."""

    index: int
    id: str
    type: Literal["function"] = "function"
    function: Function


class Delta(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a chunk adds to the message."""

    role: Literal["assistant"] | None = None
    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[DeltaToolCall] | None = None


class ChunkChoice(Struct, frozen=True, kw_only=True):
    """What a chunk adds to one reply; `finish_reason` comes with its last."""

    index: int = 0
    delta: Delta
    logprobs: Logprobs | None = None
    finish_reason: str | None = None


class ChatCompletionChunk(Struct, frozen=True, kw_only=True):
    """An event of a stream. The one with `usage` has no choices."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: Usage | UnsetType = UNSET


def usage(prompt_tokens: int, replies: Sequence[Reply]) -> Usage:
    """The prompt counts once, however many replies there are; cached is what the first of them reused."""
    started = first_start(replies)
    generated = sum(reply.generated_tokens for reply in replies)
    return Usage(
        prompt_tokens,
        generated,
        prompt_tokens + generated,
        PromptTokensDetails(started.cached_tokens if started else 0),
    )


@dataclass(frozen=True, slots=True)
class CompletionWriter:
    """Writes replies in OpenAI's shapes.

    Args:
        id: of the completion.
        created: Unix seconds.
        model: the served name.
        prompt_tokens: of the request.
        token_text: the bytes of a token.
    """

    id: str
    created: int
    model: str
    prompt_tokens: int
    token_text: Callable[[int], bytes]

    def opening(self, *, index: int = 0) -> ChatCompletionChunk:
        """The first chunk: the role, and no text yet."""
        return self._chunk(ChunkChoice(index=index, delta=Delta(role="assistant", content="")))

    def parts(
        self, parts: Sequence[ReplyPart], reply: Reply, *, index: int = 0
    ) -> Sequence[ChatCompletionChunk]:
        """A chunk for each part; the last takes along the log-probabilities that are due."""
        last = len(parts) - 1
        return [
            self._chunk(
                ChunkChoice(
                    index=index,
                    delta=_delta(part),
                    logprobs=self._logprobs(reply) if position == last else None,
                )
            )
            for position, part in enumerate(parts)
        ]

    def piece(self, piece: Piece, *, index: int = 0) -> ChatCompletionChunk:
        """A chunk of text that no log-probabilities come with."""
        return self._chunk(ChunkChoice(index=index, delta=_delta(piece)))

    def closing(self, reply: Reply, *, index: int = 0) -> ChatCompletionChunk:
        """The chunk that says why a reply has ended."""
        return self._chunk(
            ChunkChoice(
                index=index,
                delta=Delta(),
                logprobs=self._logprobs(reply),
                finish_reason=reply.finish_reason,
            )
        )

    def usage_chunk(self, *replies: Reply) -> ChatCompletionChunk:
        """The extra chunk of `stream_options.include_usage`."""
        return ChatCompletionChunk(
            id=self.id, created=self.created, model=self.model, choices=[], usage=self._usage(replies)
        )

    def whole(self, *replies: Reply) -> ChatCompletion:
        """Replies that have finished, in one."""
        return ChatCompletion(
            id=self.id,
            created=self.created,
            model=self.model,
            choices=[self._choice(index, reply) for index, reply in enumerate(replies)],
            usage=self._usage(replies),
        )

    def _choice(self, index: int, reply: Reply) -> Choice:
        calls = [
            MessageToolCall(id=call.id, function=Function(call.name, call.arguments))
            for call in reply.tool_calls
        ]
        message = ReplyMessage(
            content=reply.content or (None if calls else ""),
            reasoning_content=reply.reasoning or UNSET,
            tool_calls=calls or UNSET,
        )
        assert reply.finish_reason is not None
        return Choice(
            index=index,
            message=message,
            logprobs=self._logprobs(reply),
            finish_reason=reply.finish_reason,
        )

    def _chunk(self, choice: ChunkChoice) -> ChatCompletionChunk:
        return ChatCompletionChunk(id=self.id, created=self.created, model=self.model, choices=[choice])

    def _usage(self, replies: Sequence[Reply]) -> Usage:
        return usage(self.prompt_tokens, replies)

    def _logprobs(self, reply: Reply) -> Logprobs | None:
        due = reply.take_logprobs()
        return Logprobs([self._token(token, logprob) for token, logprob in due]) if due else None

    def _token(self, token: int, logprob: TokenLogprob) -> TokenLogprobs:
        text = self.token_text(token)
        top = [self._top(candidate, value) for candidate, value in logprob.top]
        return TokenLogprobs(text.decode(errors="replace"), logprob.logprob, list(text), top)

    def _top(self, token: int, logprob: float) -> TopLogprob:
        text = self.token_text(token)
        return TopLogprob(text.decode(errors="replace"), logprob, list(text))


def _delta(part: ReplyPart) -> Delta:
    match part:
        case ToolCall():
            function = Function(part.name, part.arguments)
            return Delta(tool_calls=[DeltaToolCall(index=part.index, id=part.id, function=function)])
        case Piece(kind=PieceKind.REASONING):
            return Delta(reasoning_content=part.text)
        case Piece():
            return Delta(content=part.text)
