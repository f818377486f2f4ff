"""`POST /v1/completions`, the older protocol: a text goes in, and what follows it comes out."""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Literal

from litestar import post
from litestar.di import NamedDependency
from litestar.openapi import ResponseSpec
from litestar.params import JSONBody
from litestar.types import ASGIApp
from msgspec import UNSET, Struct, UnsetType

from app.api import sse
from app.api.answer import Answer
from app.api.asked import Asked, logit_bias, served_model, stop_strings
from app.api.authorization import caller_of
from app.api.errors import error_body
from app.api.json_request import JsonRequest
from app.api.openai.completion import Usage, usage
from app.api.openai.refusals import REFUSALS
from app.api.openai.text_schema import CompletionRequest
from app.api.operations import StreamedOperation
from app.api.ports import ChatModel, Piece, ReplyPart, TextPrompt
from app.api.reply import Reply
from app.api.services import Services
from app.api.sessions import session_of
from app.api.writer import Api, Facts
from app.errors import RequestError
from app.scheduler.job import Sampling, TokenLogprob

DEFAULT_MAX_TOKENS = 16
"""The protocol's own default."""


class TextLogprobs(Struct, frozen=True):
    """One entry for each token. `text_offset` counts characters from the reply's beginning."""

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]]
    text_offset: list[int]


class TextChoice(Struct, frozen=True, kw_only=True):
    """One reply, or what a chunk adds to it."""

    index: int
    text: str
    logprobs: TextLogprobs | None = None
    finish_reason: str | None = None


class TextCompletion(Struct, frozen=True, kw_only=True):
    """All replies, or a chunk of one."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: list[TextChoice]
    usage: Usage | UnsetType = UNSET


@post(
    "/completions",
    status_code=200,
    summary="Create a completion of a text",
    operation_class=StreamedOperation,
    tags=["OpenAI"],
    responses={
        200: ResponseSpec(
            TextCompletion, description="The text; with `stream`, chunks as server-sent events"
        ),
        **REFUSALS,
    },
)
async def create_completion(
    data: JSONBody[CompletionRequest],
    request: JsonRequest,
    services: NamedDependency[Services],
    prompt_thread: NamedDependency[Executor],
) -> ASGIApp:
    """Go on with a text as it stands: no template is put around it, and no part of the reply is taken out."""
    model = served_model(services, data.model)
    session = session_of(request.headers, prompt_cache_key=data.prompt_cache_key, user=data.user)
    with_usage = bool(data.stream_options and data.stream_options.include_usage)
    return Answer(
        services,
        prompt_thread,
        model,
        asked(data, model, session=session),
        tenant=caller_of(request.scope).tenant,
        api=Api("text_completion", "prompt", partial(TextWriter, with_usage=with_usage)),
    )


def asked(request: CompletionRequest, model: ChatModel, *, session: str) -> Asked:
    """The request in the program's own terms.

    Raises:
        RequestError: something of it cannot be served.
    """
    if request.echo:
        raise RequestError("echo: only false is served; the prompt is the client's to show.", param="echo")
    if request.suffix:
        raise RequestError("suffix: is not served; nothing can be made to fit before a text.", param="suffix")
    if request.best_of not in (None, request.n or 1):
        raise RequestError("best_of: only as many as n are generated.", param="best_of")
    return Asked(
        model=request.model,
        prompt=_prompt(request.prompt, model.vocabulary_size),
        session=session,
        sampling=Sampling(
            temperature=1.0 if request.temperature is None else request.temperature,
            top_p=1.0 if request.top_p is None else request.top_p,
            top_k=request.top_k or 0,
            min_p=request.min_p or 0.0,
            seed=request.seed,
            presence_penalty=request.presence_penalty or 0.0,
            frequency_penalty=request.frequency_penalty or 0.0,
            repetition_penalty=request.repetition_penalty or 1.0,
            logit_bias=logit_bias(request.logit_bias, model.vocabulary_size),
            top_logprobs=request.logprobs,
        ),
        stop=stop_strings(request.stop),
        max_tokens=request.max_tokens or DEFAULT_MAX_TOKENS,
        use_snapshots=request.cache_prompt is not False,
        stream=bool(request.stream),
        replies=request.n or 1,
    )


def _prompt(given: str | Sequence[str | int | list[int]], vocabulary_size: int) -> TextPrompt:
    content: object = given
    if isinstance(given, list) and len(given) == 1 and not isinstance(given[0], int):
        (content,) = given
    if isinstance(content, str) and content:
        return TextPrompt(content)
    if not isinstance(content, list) or not content or not all(isinstance(each, int) for each in content):
        raise RequestError("prompt: must be one text, or its tokens, and not empty.", param="prompt")
    if unknown := next((each for each in content if not 0 <= each < vocabulary_size), None):
        raise RequestError(
            f"prompt: {unknown} is not a token id of this model (0 to {vocabulary_size - 1}).", param="prompt"
        )
    return TextPrompt(tuple(content))


class TextWriter:
    """Writes one answer, whole or in chunks.

    Args:
        facts: of the answer.
        with_usage: whether the last chunk is the usage.
    """

    keep_alive = sse.KEEP_ALIVE

    def __init__(self, facts: Facts, *, with_usage: bool) -> None:
        self.id = f"cmpl-{facts.id}"
        self._facts = facts
        self._with_usage = with_usage
        self._offsets: dict[int, int] = {}

    def whole(self, replies: Sequence[Reply]) -> TextCompletion:
        """The completion."""
        return self._completion(
            *(
                TextChoice(
                    index=index,
                    text=reply.content,
                    logprobs=self._logprobs(index, reply),
                    finish_reason=reply.finish_reason,
                )
                for index, reply in enumerate(replies)
            ),
            usage=usage(self._facts.prompt_tokens, replies),
        )

    def opening(self, _replies: Sequence[Reply]) -> bytes:
        """Nothing: a text has no role."""
        return b""

    def parts(self, index: int, parts: Sequence[ReplyPart], reply: Reply) -> bytes:
        """A chunk of text, with the log-probabilities that are due."""
        text = "".join(part.text for part in parts if isinstance(part, Piece))
        if not text:
            return b""
        return self._chunk(TextChoice(index=index, text=text, logprobs=self._logprobs(index, reply)))

    def ended(self, index: int, reply: Reply) -> bytes:
        """The chunk with the reason."""
        logprobs = self._logprobs(index, reply)
        return self._chunk(
            TextChoice(index=index, text="", logprobs=logprobs, finish_reason=reply.finish_reason)
        )

    def closing(self, replies: Sequence[Reply]) -> bytes:
        """The usage, if it is wanted, and OpenAI's word for the end."""
        told = self._completion(usage=usage(self._facts.prompt_tokens, replies))
        return (sse.event(told) if self._with_usage else b"") + sse.DONE

    def failed(self, error: RequestError, _replies: Sequence[Reply]) -> bytes:
        """A frame with the error; there is no end after it."""
        return sse.event(error_body(error))

    def _chunk(self, choice: TextChoice) -> bytes:
        return sse.event(self._completion(choice))

    def _completion(self, *choices: TextChoice, usage: Usage | UnsetType = UNSET) -> TextCompletion:
        return TextCompletion(
            id=self.id,
            created=self._facts.created,
            model=self._facts.model,
            choices=list(choices),
            usage=usage,
        )

    def _logprobs(self, index: int, reply: Reply) -> TextLogprobs | None:
        due = reply.take_logprobs()
        if not due:
            return None
        told, self._offsets[index] = _told(due, self._facts.token_text, at=self._offsets.get(index, 0))
        return told


def _told(
    due: Sequence[tuple[int, TokenLogprob]], token_text: Callable[[int], bytes], *, at: int
) -> tuple[TextLogprobs, int]:
    """The entries of some tokens, the first of which begins at `at`; and where the next one does."""

    def text_of(token: int) -> str:
        return token_text(token).decode(errors="replace")

    tokens = [text_of(token) for token, _ in due]
    offsets = []
    for text in tokens:
        offsets.append(at)
        at += len(text)
    return (
        TextLogprobs(
            tokens,
            [logprob.logprob for _, logprob in due],
            [{text_of(token): value for token, value in logprob.top} for _, logprob in due],
            offsets,
        ),
        at,
    )
