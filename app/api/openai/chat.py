"""`POST /v1/chat/completions`: the route, and its answers as OpenAI's clients read them."""

from collections.abc import Sequence
from concurrent.futures import Executor
from functools import partial

from litestar import post
from litestar.di import NamedDependency
from litestar.openapi import ResponseSpec
from litestar.params import JSONBody
from litestar.types import ASGIApp

from app.api import sse
from app.api.answer import Answer
from app.api.asked import served_model
from app.api.authorization import caller_of
from app.api.errors import error_body
from app.api.json_request import JsonRequest
from app.api.openai import translate
from app.api.openai.completion import ChatCompletion, CompletionWriter
from app.api.openai.refusals import REFUSALS
from app.api.openai.schema import ChatRequest
from app.api.operations import StreamedOperation
from app.api.ports import Piece, PieceKind, ReplyPart
from app.api.reply import Reply
from app.api.services import Services
from app.api.writer import Api, Facts
from app.errors import RequestError


@post(
    "/chat/completions",
    status_code=200,
    summary="Create a chat completion",
    operation_class=StreamedOperation,
    tags=["OpenAI"],
    responses={
        200: ResponseSpec(
            ChatCompletion, description="The reply; with `stream`, chunks as server-sent events"
        ),
        **REFUSALS,
    },
)
async def create_chat_completion(
    data: JSONBody[ChatRequest],
    request: JsonRequest,
    services: NamedDependency[Services],
    prompt_thread: NamedDependency[Executor],
) -> ASGIApp:
    """Answer the conversation's last message, whole or as a stream."""
    model = served_model(services, data.model)
    return Answer(
        services,
        prompt_thread,
        model,
        translate.asked(data, request.headers, model),
        tenant=caller_of(request.scope).tenant,
        api=Api(
            "chat",
            "messages",
            partial(
                ChatWriter,
                with_usage=bool(data.stream_options and data.stream_options.include_usage),
                replies=data.n or 1,
            ),
        ),
    )


class ChatWriter:
    """Writes one answer, whole or in chunks.

    Args:
        facts: of the answer.
        with_usage: whether the last chunk is the usage.
        replies: how many there are.
    """

    keep_alive = sse.KEEP_ALIVE

    def __init__(self, facts: Facts, *, with_usage: bool, replies: int) -> None:
        self.id = f"chatcmpl-{facts.id}"
        self._completion = CompletionWriter(
            self.id, facts.created, facts.model, facts.prompt_tokens, facts.token_text
        )
        self._with_usage = with_usage
        self._replies = replies
        self._pieces: dict[tuple[int, PieceKind], sse.TextEvent] = {}

    def whole(self, replies: Sequence[Reply]) -> ChatCompletion:
        """The completion."""
        return self._completion.whole(*replies)

    def opening(self, _replies: Sequence[Reply]) -> bytes:
        """The role of each reply."""
        return b"".join(sse.event(self._completion.opening(index=index)) for index in range(self._replies))

    def parts(self, index: int, parts: Sequence[ReplyPart], reply: Reply) -> bytes:
        """A chunk for each part."""
        if len(parts) == 1 and isinstance(piece := parts[0], Piece) and not reply.logprobs_due:
            return self._piece(index, piece)
        return b"".join(map(sse.event, self._completion.parts(parts, reply, index=index)))

    def _piece(self, index: int, piece: Piece) -> bytes:
        """Most of what is ever sent."""
        of_kind = self._pieces.get((index, piece.kind))
        if of_kind is None:
            kind = piece.kind
            of_kind = sse.TextEvent(lambda text: self._completion.piece(Piece(kind, text), index=index))
            self._pieces[index, kind] = of_kind
        return of_kind(piece.text)

    def ended(self, index: int, reply: Reply) -> bytes:
        """The chunk with the reason."""
        return sse.event(self._completion.closing(reply, index=index))

    def closing(self, replies: Sequence[Reply]) -> bytes:
        """The usage, if it is wanted, and OpenAI's word for the end."""
        usage = sse.event(self._completion.usage_chunk(*replies)) if self._with_usage else b""
        return usage + sse.DONE

    def failed(self, error: RequestError, _replies: Sequence[Reply]) -> bytes:
        """A frame with the error; there is no end after it."""
        return sse.event(error_body(error))
